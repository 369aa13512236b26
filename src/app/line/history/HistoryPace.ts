import { Listeners, sleep } from '../../../runtime/index.js';
import type { Clock } from '../../../runtime/index.js';

/** History yields while the event loop is late by more than this on average. */
const LATE_MS = 20;
/** How often the delay is measured, the share is set, and, while history does not run beside the live range, that is checked. */
const MEASURE_EVERY_MS = 25;
const SET_EVERY_MS = 250;
const LOOK_EVERY_MS = 1_000;
/** How much the share rises each time the event loop was on time: to the full share in four seconds. */
const STEP_UP = 1 / 16;
/** The smallest share; it still leaves one slot and the smallest window. */
const LEAST_SHARE = 1 / 1024;

/**
 * The share of its slots and windows that history may use: all of them, but less while the event loop that it shares with
 * the live range is late. The share is halved again and again while the loop is late, and then rises in small steps.
 */
export class HistoryPace {
  readonly #deps: ConstructorParameters<typeof HistoryPace>[0];
  readonly #listeners = new Listeners();
  #share = 1;
  /** The mean delay, when the event loop was last too late. */
  #lateMs = 0;

  constructor(dependencies: {
    /** True while history is filled in beside a live range that would suffer. */
    readonly isBesideLive: () => boolean;
    readonly clock: Clock;
    /** How late a sleep until `dueMs` (monotonic) ended. Default: by the clock. */
    readonly lateMs?: ((dueMs: number) => number) | undefined;
  }) {
    this.#deps = dependencies;
  }

  /** Above 0, up to 1. */
  share(): number {
    return this.#share;
  }

  /** Why history is slower than it could be; `undefined` if it is not held back. */
  heldBack(): { readonly share: number; readonly message: string } | undefined {
    if (this.#share === 1) return undefined;
    const percent = Math.max(1, Math.round(100 * this.#share));
    const late = Math.round(this.#lateMs);
    return {
      share: this.#share,
      message: `history uses ${percent} % of its slots and window: the event loop was ${late} ms late, and the live range has priority`,
    };
  }

  /** Calls back when history may use more than before. The callback must not throw. Returns a function that ends it. */
  onMore(callback: () => void): () => void {
    return this.#listeners.add(callback);
  }

  /** Measures while history runs beside the live range, until `signal` aborts. Rejects with its reason. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, isBesideLive } = this.#deps;
    for (;;) {
      if (isBesideLive()) this.#set(await this.#meanLateMs(signal));
      else {
        this.#become(1);
        await sleep(clock, LOOK_EVERY_MS, signal);
      }
    }
  }

  async #meanLateMs(signal: AbortSignal): Promise<number> {
    const { clock } = this.#deps;
    const { lateMs = (dueMs: number): number => clock.monotonic() - dueMs } = this.#deps;
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
  }

  #set(lateMs: number): void {
    if (lateMs > LATE_MS) {
      this.#lateMs = lateMs;
      this.#become(Math.max(LEAST_SHARE, this.#share / 2));
    } else this.#become(Math.min(1, this.#share + STEP_UP));
  }

  #become(share: number): void {
    const isMore = share > this.#share;
    this.#share = share;
    if (isMore) this.#listeners.tell();
  }
}
