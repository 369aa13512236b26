import { MirroredMetrics } from '../../observability/index.js';
import type { MetricsSnapshot } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';

/** How long a scrape waits for the thread's metrics. */
const SCRAPE_LIMIT_MS = 250;

/** The metrics of all reader threads so far, and the scrapes that wait for the current thread. */
export class ReaderScrapes {
  readonly #clock: Clock;
  readonly #told = new MirroredMetrics();
  #onTold: (() => void)[] = [];

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
  }

  /** Resolves once the thread has sent its metrics, or after `SCRAPE_LIMIT_MS`. Concurrent scrapes share one `ask`. */
  async fresh(ask: () => void): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = this.#clock.setTimer(SCRAPE_LIMIT_MS, resolve);
      this.#onTold.push(() => {
        timer.cancel();
        resolve();
      });
      if (this.#onTold.length === 1) ask();
    });
  }

  told(snapshot: MetricsSnapshot): void {
    this.#told.update(snapshot);
    this.#wake();
  }

  /** The thread has ended: the next one counts from zero. */
  ended(): void {
    this.#told.ended();
    this.#wake();
  }

  /** The totals, as sent last. */
  all(): readonly MetricsSnapshot[] {
    return this.#told.all();
  }

  #wake(): void {
    for (const wake of this.#onTold.splice(0)) wake();
  }
}
