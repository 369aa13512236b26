import { Listeners, sleep, type Clock } from '../../../runtime/index.js';

/** History yields while the event loop is late by more than this on average. */
const LATE_MS = 20;
/** How often the delay is measured and the share set; otherwise, how often to check whether history runs beside the live range. */
const MEASURE_EVERY_MS = 25;
const SET_EVERY_MS = 250;
const LOOK_EVERY_MS = 1_000;
/** How much the share rises each time the event loop was on time: to the full share in four seconds. */
const STEP_UP = 1 / 16;
/** The smallest share; it still leaves one slot and the smallest window. */
const LEAST_SHARE = 1 / 1024;

export type HistoryPace = ReturnType<typeof paceHistory>;

/**
 * The share of its slots and windows that history may use: all of them, but less while the event loop that it shares with
 * the live range is late. The share is halved again and again while the loop is late, and then rises in small steps.
 */
export function paceHistory(dependencies: {
  /** True while history is filled in beside a live range that would suffer. */
  readonly isBesideLive: () => boolean;
  readonly clock: Clock;
  /** How late a sleep until `dueMs` (monotonic) ended. Default: by the clock. */
  readonly lateMs?: ((dueMs: number) => number) | undefined;
}) {
  const { clock, isBesideLive, lateMs = (dueMs) => clock.monotonic() - dueMs } = dependencies;
  const listeners = new Listeners();
  let share = 1;
  /** The mean delay when the event loop was last too late. */
  let meanMs = 0;

  const become = (next: number): void => {
    const isMore = next > share;
    share = next;
    if (isMore) listeners.tell();
  };
  const meanLateMs = async (signal: AbortSignal): Promise<number> => {
    const untilMs = clock.monotonic() + SET_EVERY_MS;
    let sum = 0;
    let count = 0;
    do {
      const dueMs = clock.monotonic() + MEASURE_EVERY_MS;
      await sleep(clock, MEASURE_EVERY_MS, signal);
      sum += Math.max(0, lateMs(dueMs));
      count += 1;
    } while (clock.monotonic() < untilMs);
    return sum / count;
  };
  return {
    /** Above 0, up to 1. */
    share: (): number => share,
    /** Why history is slower than it could be; `undefined` if it is not held back. */
    heldBack: (): { readonly share: number; readonly message: string } | undefined => {
      if (share === 1) return undefined;
      const percent = Math.max(1, Math.round(100 * share));
      const message = `history uses ${percent} % of its slots and window: the event loop was ${Math.round(meanMs)} ms late, and the live range has priority`;
      return { share, message };
    },
    /** Calls back when history may use more than before. The callback must not throw. Returns a function that ends it. */
    onMore: (callback: () => void): (() => void) => listeners.add(callback),
    /** Measures while history runs beside the live range, until `signal` aborts. Rejects with its reason. */
    run: async (signal: AbortSignal): Promise<void> => {
      for (;;) {
        if (!isBesideLive()) {
          become(1);
          await sleep(clock, LOOK_EVERY_MS, signal);
          continue;
        }
        const measuredMs = await meanLateMs(signal);
        if (measuredMs <= LATE_MS) become(Math.min(1, share + STEP_UP));
        else {
          meanMs = measuredMs;
          become(Math.max(LEAST_SHARE, share / 2));
        }
      }
    },
  };
}
