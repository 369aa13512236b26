import { ok as assert } from 'node:assert/strict';
import type { Admission, AdmittedCall, NotAdmitted } from '../../access/index.js';
import { ApiError, indexerSilent, type IndexedRange, type StatusDocument } from '../../api/index.js';
import type { Identifier } from '../../flow/index.js';
import { AbortError, childOf, every, sleep, type Clock } from '../../runtime/index.js';
import type { Calls } from './calls.js';
import type { IndexerCalls, ReaderState } from './messages.js';
import { rangeOf } from './readableIndex.js';

/** How long the indexing thread may take to answer a query, or be silent while a call waits for admission. */
export const QUESTION_LIMIT_MS = 2_000;
export const MAX_QUESTIONS = 64;
/** The indexing thread makes the status: once for all requests within this time. */
const STATUS_PAUSE_MS = 20;

/**
 * The reader thread's link to the indexing thread: its latest state, answers to queries, which have a deadline, and the
 * admission of calls.
 */
export function linkIndexer(parts: { readonly clock: Clock; readonly indexer: () => Calls<IndexerCalls> }) {
  const { clock, indexer } = parts;
  /** Ends each forwarded call that must make way for the indexer. Bounded by the limits on forwarded calls. */
  const calls = new Map<number, AbortController>();
  let lastCall = 0;
  let questions = 0;
  let shown: ReaderState | undefined;
  let nextStatus: Promise<StatusDocument> | undefined;
  /** When the last state arrived; one arrives twice a second. */
  let stateAtMs = -Infinity;

  /** The servers start with the first one. */
  const state = (): ReaderState => {
    assert(shown !== undefined, 'a state was shown');
    return shown;
  };

  /** Expected errors: ApiError (`busy`, `indexer_silent`). */
  const asked = async <Answer>(ask: (signal: AbortSignal) => Promise<Answer>): Promise<Answer> => {
    if (questions >= MAX_QUESTIONS) {
      const message = `at most ${MAX_QUESTIONS} requests may wait for the indexing thread; retry`;
      throw new ApiError(503, 'busy', message);
    }
    const waiting = childOf();
    const timer = clock.setTimer(QUESTION_LIMIT_MS, () => waiting.abort(indexerSilent()));
    questions += 1;
    try {
      return await ask(waiting.signal);
    } finally {
      questions -= 1;
      timer.cancel();
    }
  };

  return {
    state,
    show: (next: ReaderState): void => {
      stateAtMs = clock.monotonic();
      shown = next;
    },
    makeWay: (id: number): void => calls.get(id)?.abort(),
    range: (): IndexedRange => rangeOf(state()),
    readiness: (): { readonly ready: boolean } => ({ ready: state().isReady }),
    status: () =>
      (nextStatus ??= sleep(clock, STATUS_PAUSE_MS).then(() => {
        nextStatus = undefined;
        return asked((signal) => indexer().ask(signal, 'status'));
      })),
    momentAt: (key: number | Identifier) => asked((signal) => indexer().ask(signal, 'momentAt', key)),
    /** See `ForwardingAdmission`. */
    admit: async (
      node: string,
      call: AdmittedCall,
      signal: AbortSignal,
    ): Promise<Admission | NotAdmitted> => {
      const id = (lastCall += 1);
      const makeWay = new AbortController();
      const over: Admission['over'] = (end) => {
        if (calls.delete(id)) indexer().tell('over', id, end);
      };
      const silence = new AbortError('the indexing thread is silent');
      const waiting = childOf(signal);
      // A thread that is alive may queue it for longer.
      const looking = every(clock, QUESTION_LIMIT_MS, () => {
        if (clock.monotonic() - stateAtMs >= QUESTION_LIMIT_MS) waiting.abort(silence);
      });
      calls.set(id, makeWay);
      try {
        const outcome = await indexer().ask(waiting.signal, 'admit', id, node, call);
        if (outcome !== 'admitted') {
          calls.delete(id);
          return outcome;
        }
        const onMakeWay = (end: () => void): void => {
          if (makeWay.signal.aborted) end();
          else makeWay.signal.addEventListener('abort', end, { once: true });
        };
        return { over, onMakeWay };
      } catch (error) {
        over('other');
        if (error === silence) return 'silent';
        throw error;
      } finally {
        looking.cancel();
        waiting.abort();
      }
    },
  };
}
