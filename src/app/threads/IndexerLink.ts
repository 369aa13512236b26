import type {
  Admission,
  AdmissionEnd,
  AdmittedCall,
  Endpoint,
  ForwardingAdmission,
  NotAdmitted,
} from '../../access/index.js';
import { ApiError, indexerSilent } from '../../api/index.js';
import type { IndexedRange, StatusSource, HeightWorkSource } from '../../api/index.js';
import type { Identifier } from '../../flow/index.js';
import { every, unlessAborted } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type {
  Answer,
  Answers,
  FromReader,
  IndexMoment,
  Question,
  Surroundings,
  ToReader,
} from './messages.js';
import { rangeOf } from './readableIndex.js';

/** How long the indexing thread may take to answer a question, or be silent while a call waits to be admitted. */
export const QUESTION_LIMIT_MS = 2_000;
/** Unanswered questions at most. */
export const MAX_QUESTIONS = 64;

const NOTHING: IndexMoment = {
  shown: {
    meta: undefined,
    latestIndexedHeight: 0,
    coverage: [],
    latestBlock: undefined,
    rewinds: 0,
    accounts: undefined,
  },
  head: null,
  sealed: null,
};

/** A forwarded call, from the request for admission to its end. */
interface AskedCall {
  readonly decide: (outcome: 'admitted' | NotAdmitted) => void;
  /** Aborted when the call must make way for the indexer. */
  readonly makeWay: AbortController;
}

/**
 * The reader thread's link to the indexing thread: its latest state, questions with a deadline, and the admission of
 * forwarded calls.
 */
export class IndexerLink implements StatusSource, HeightWorkSource, ForwardingAdmission {
  readonly #clock: Clock;
  readonly #post: (message: FromReader) => void;
  readonly #asked = new Map<number, (answer: Answer) => void>();
  /** Bounded by the limits on forwarded calls. */
  readonly #calls = new Map<number, AskedCall>();
  #ids = 0;
  #moment = NOTHING;
  #surroundings: Surroundings = { isReady: false, forwardingOff: undefined, nodes: [] };
  /** When the last message came, of whatever kind: the state comes twice a second. */
  #heardAtMs = -Infinity;

  constructor(dependencies: { readonly clock: Clock; readonly post: (message: FromReader) => void }) {
    this.#clock = dependencies.clock;
    this.#post = dependencies.post;
  }

  get moment(): IndexMoment {
    return this.#moment;
  }

  /** Handles messages from the indexing thread. */
  receive(message: ToReader): void {
    this.#heardAtMs = this.#clock.monotonic();
    switch (message.kind) {
      case 'state':
        this.#moment = message.moment;
        this.#surroundings = message.surroundings ?? this.#surroundings;
        break;
      case 'answer':
        this.#asked.get(message.id)?.(message.answer);
        break;
      case 'admission':
        this.#calls.get(message.id)?.decide(message.outcome);
        break;
      case 'makeWay':
        this.#calls.get(message.id)?.makeWay.abort();
        break;
      default:
    }
  }

  range(): IndexedRange {
    return rangeOf(this.#moment);
  }

  readiness(): { readonly ready: boolean } {
    return { ready: this.#surroundings.isReady };
  }

  forwardingOff(): string | undefined {
    return this.#surroundings.forwardingOff;
  }

  forwardingNodes(): readonly Endpoint[] {
    return this.#surroundings.nodes;
  }

  status(): Promise<Answers['status']> {
    return this.#ask({ about: 'status' }) as Promise<Answers['status']>;
  }

  momentAt(height: number): Promise<Answers['height']> {
    return this.#ask({ about: 'height', height }) as Promise<Answers['height']>;
  }

  naming(id: Identifier): Promise<Answers['id']> {
    return this.#ask({ about: 'id', id }) as Promise<Answers['id']>;
  }

  async admit(node: string, call: AdmittedCall, signal: AbortSignal): Promise<Admission | NotAdmitted> {
    const id = this.#newId();
    const makeWay = new AbortController();
    const over = (end: AdmissionEnd): void => {
      if (this.#calls.delete(id)) this.#post({ kind: 'over', id, end });
    };
    try {
      const outcome = await unlessAborted<'admitted' | NotAdmitted>(signal, (decide) => {
        this.#calls.set(id, { decide, makeWay });
        this.#post({ kind: 'admit', id, node, call });
        // It may be queued for longer, by a thread that is there.
        const looking = every(this.#clock, QUESTION_LIMIT_MS, () => {
          if (this.#clock.monotonic() - this.#heardAtMs >= QUESTION_LIMIT_MS) decide('silent');
        });
        return () => looking.cancel();
      });
      if (outcome === 'admitted') {
        const onMakeWay = (end: () => void): void => {
          if (makeWay.signal.aborted) end();
          else makeWay.signal.addEventListener('abort', end, { once: true });
        };
        return { over, onMakeWay };
      }
      if (outcome === 'silent') over('other');
      else this.#calls.delete(id);
      return outcome;
    } catch (error) {
      over('other');
      throw error;
    }
  }

  /** Expected errors: ApiError (`busy`, `indexer_silent`). */
  #ask(question: Question): Promise<Answer> {
    if (this.#asked.size >= MAX_QUESTIONS) {
      const message = `at most ${MAX_QUESTIONS} requests may wait for the indexing thread; retry`;
      return Promise.reject(new ApiError(503, 'busy', message));
    }
    return new Promise((resolve, reject) => {
      const id = this.#newId();
      const timer = this.#clock.setTimer(QUESTION_LIMIT_MS, () => {
        this.#asked.delete(id);
        reject(indexerSilent());
      });
      this.#asked.set(id, (answer) => {
        this.#asked.delete(id);
        timer.cancel();
        resolve(answer);
      });
      this.#post({ kind: 'ask', id, question });
    });
  }

  #newId(): number {
    this.#ids += 1;
    return this.#ids;
  }
}
