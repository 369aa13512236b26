import type {
  Admission,
  AdmittedCall,
  Endpoint,
  ForwardingAdmission,
  NotAdmitted,
} from '../../access/index.js';
import { ApiError, indexerSilent } from '../../api/index.js';
import type { IndexedRange, StatusSource, HeightWorkSource } from '../../api/index.js';
import type { Identifier } from '../../flow/index.js';
import { abortReason } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import type {
  Answer,
  Answers,
  FromReader,
  IndexMoment,
  Question,
  Surroundings,
  ToReader,
} from './messages.js';

/** How long the indexing thread may take to answer a question, or to say that a call is queued. */
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

interface Asked {
  readonly answered: (answer: Answer) => void;
  readonly timer: Timer;
}

/** A forwarded call, from the request for admission to its end. */
interface AskedAdmission {
  readonly decide: (outcome: Admission | NotAdmitted) => void;
  timer: Timer | undefined;
  makeWay: (() => void) | undefined;
  hasToMakeWay: boolean;
}

/**
 * The reader thread's link to the indexing thread: its latest state, questions with a deadline, and the admission of
 * forwarded calls.
 */
export class IndexerLink implements StatusSource, HeightWorkSource, ForwardingAdmission {
  readonly #clock: Clock;
  readonly #post: (message: FromReader) => void;
  readonly #asked = new Map<number, Asked>();
  /** Bounded by the limits on forwarded calls. */
  readonly #admissions = new Map<number, AskedAdmission>();
  #ids = 0;
  #moment = NOTHING;
  #surroundings: Surroundings = { isReady: false, forwardingOff: undefined, nodes: [] };

  constructor(dependencies: { readonly clock: Clock; readonly post: (message: FromReader) => void }) {
    this.#clock = dependencies.clock;
    this.#post = dependencies.post;
  }

  get moment(): IndexMoment {
    return this.#moment;
  }

  /** Handles messages from the indexing thread. */
  receive(message: ToReader): void {
    switch (message.kind) {
      case 'state':
        this.#moment = message.moment;
        this.#surroundings = message.surroundings ?? this.#surroundings;
        break;
      case 'answer':
        this.#asked.get(message.id)?.answered(message.answer);
        break;
      case 'admission':
        this.#onAdmission(message.id, message.outcome);
        break;
      case 'makeWay':
        this.#onMakeWay(message.id);
        break;
      case 'settings':
      case 'secrets':
      case 'scrape':
      case 'stop':
    }
  }

  range(): IndexedRange {
    const { shown, head, sealed, proven, awaitsProof } = this.#moment;
    const firstIndexed = shown.meta?.firstHeight ?? null;
    return {
      firstIndexed,
      latestIndexed: firstIndexed === null ? null : shown.latestIndexedHeight,
      head,
      sealed,
      coverage: shown.coverage,
      healing: shown.healing,
      proven,
      awaitsProof,
    };
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

  admit(node: string, call: AdmittedCall, signal: AbortSignal): Promise<Admission | NotAdmitted> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(abortReason(signal));
        return;
      }
      const id = this.#newId();
      const onAbort = (): void => {
        this.#leave(id, 'other');
        reject(abortReason(signal));
      };
      const decide = (outcome: Admission | NotAdmitted): void => {
        asked.timer?.cancel();
        signal.removeEventListener('abort', onAbort);
        if (typeof outcome === 'string') this.#leave(id, outcome === 'silent' ? 'other' : undefined);
        resolve(outcome);
      };
      const asked: AskedAdmission = {
        decide,
        timer: this.#clock.setTimer(QUESTION_LIMIT_MS, () => decide('silent')),
        makeWay: undefined,
        hasToMakeWay: false,
      };
      signal.addEventListener('abort', onAbort, { once: true });
      this.#admissions.set(id, asked);
      this.#post({ kind: 'admit', id, node, call });
    });
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
      const answered = (answer: Answer): void => {
        this.#asked.delete(id);
        timer.cancel();
        resolve(answer);
      };
      this.#asked.set(id, { answered, timer });
      this.#post({ kind: 'ask', id, question });
    });
  }

  #onAdmission(id: number, outcome: 'waits' | 'admitted' | NotAdmitted): void {
    const asked = this.#admissions.get(id);
    if (asked === undefined) return;
    if (outcome === 'waits') {
      asked.timer?.cancel();
      asked.timer = undefined;
      return;
    }
    if (outcome !== 'admitted') {
      asked.decide(outcome);
      return;
    }
    asked.decide({
      over: (end) => this.#leave(id, end),
      onMakeWay: (end) => {
        asked.makeWay = end;
        if (asked.hasToMakeWay) end();
      },
    });
  }

  #onMakeWay(id: number): void {
    const asked = this.#admissions.get(id);
    if (asked === undefined) return;
    asked.hasToMakeWay = true;
    asked.makeWay?.();
  }

  /** `end`: the outcome for the other thread; `undefined` if it needs none. */
  #leave(id: number, end: Parameters<Admission['over']>[0] | undefined): void {
    const asked = this.#admissions.get(id);
    if (asked === undefined) return;
    asked.timer?.cancel();
    this.#admissions.delete(id);
    if (end !== undefined) this.#post({ kind: 'over', id, end });
  }

  #newId(): number {
    this.#ids += 1;
    return this.#ids;
  }
}
