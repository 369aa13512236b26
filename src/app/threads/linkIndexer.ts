import type { Admission, AdmissionEnd, AdmittedCall, Endpoint, NotAdmitted } from '../../access/index.js';
import { ApiError, indexerSilent } from '../../api/index.js';
import type { IndexedRange } from '../../api/index.js';
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
export function linkIndexer(thread: { readonly clock: Clock; readonly post: (message: FromReader) => void }) {
  const { clock, post } = thread;
  const asked = new Map<number, (answer: Answer) => void>();
  /** Bounded by the limits on forwarded calls. */
  const calls = new Map<number, AskedCall>();
  let lastId = 0;
  let moment = NOTHING;
  let surroundings: Surroundings = { isReady: false, forwardingOff: undefined, nodes: [] };
  /** When the last message came, of whatever kind: the state comes twice a second. */
  let heardAtMs = -Infinity;

  /** Expected errors: ApiError (`busy`, `indexer_silent`). */
  const ask = <About extends keyof Answers>(
    question: Question & { readonly about: About },
  ): Promise<Answers[About]> => {
    if (asked.size >= MAX_QUESTIONS) {
      const message = `at most ${MAX_QUESTIONS} requests may wait for the indexing thread; retry`;
      return Promise.reject(new ApiError(503, 'busy', message));
    }
    return new Promise((resolve, reject) => {
      const id = (lastId += 1);
      const timer = clock.setTimer(QUESTION_LIMIT_MS, () => {
        asked.delete(id);
        reject(indexerSilent());
      });
      asked.set(id, (answer) => {
        asked.delete(id);
        timer.cancel();
        resolve(answer as Answers[About]);
      });
      post({ kind: 'ask', id, question });
    });
  };

  return {
    moment: (): IndexMoment => moment,
    /** Handles messages from the indexing thread. */
    receive: (message: ToReader): void => {
      heardAtMs = clock.monotonic();
      switch (message.kind) {
        case 'state':
          moment = message.moment;
          surroundings = message.surroundings ?? surroundings;
          break;
        case 'answer':
          asked.get(message.id)?.(message.answer);
          break;
        case 'admission':
          calls.get(message.id)?.decide(message.outcome);
          break;
        case 'makeWay':
          calls.get(message.id)?.makeWay.abort();
          break;
        default:
      }
    },
    range: (): IndexedRange => rangeOf(moment),
    readiness: (): { readonly ready: boolean } => ({ ready: surroundings.isReady }),
    forwardingOff: (): string | undefined => surroundings.forwardingOff,
    forwardingNodes: (): readonly Endpoint[] => surroundings.nodes,
    status: () => ask({ about: 'status' }),
    momentAt: (height: number) => ask({ about: 'height', height }),
    naming: (id: Identifier) => ask({ about: 'id', id }),
    /** See `ForwardingAdmission`. */
    admit: async (
      node: string,
      call: AdmittedCall,
      signal: AbortSignal,
    ): Promise<Admission | NotAdmitted> => {
      const id = (lastId += 1);
      const makeWay = new AbortController();
      const over = (end: AdmissionEnd): void => {
        if (calls.delete(id)) post({ kind: 'over', id, end });
      };
      try {
        const outcome = await unlessAborted<'admitted' | NotAdmitted>(signal, (decide) => {
          calls.set(id, { decide, makeWay });
          post({ kind: 'admit', id, node, call });
          // It may be queued for longer, by a thread that is there.
          const looking = every(clock, QUESTION_LIMIT_MS, () => {
            if (clock.monotonic() - heardAtMs >= QUESTION_LIMIT_MS) decide('silent');
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
        else calls.delete(id);
        return outcome;
      } catch (error) {
        over('other');
        throw error;
      }
    },
  };
}
