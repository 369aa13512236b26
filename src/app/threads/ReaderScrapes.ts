import { MirroredMetrics } from '../../observability/index.js';
import type { MetricsSnapshot } from '../../observability/index.js';
import { Pause } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';

/** How long a scrape waits for the thread's metrics. */
const SCRAPE_LIMIT_MS = 250;

/** The metrics of all reader threads so far, and the scrapes that wait for the current thread. */
export class ReaderScrapes {
  readonly #told = new MirroredMetrics();
  readonly #answer: Pause;
  #asked: Promise<void> | undefined;

  constructor(dependencies: { readonly clock: Clock }) {
    this.#answer = new Pause(dependencies);
  }

  /** Resolves once the thread has sent its metrics, or after `SCRAPE_LIMIT_MS`. Concurrent scrapes share one `ask`. */
  fresh(ask: () => void): Promise<void> {
    if (this.#asked === undefined) {
      this.#asked = this.#answer.sleep(SCRAPE_LIMIT_MS).finally(() => (this.#asked = undefined));
      ask();
    }
    return this.#asked;
  }

  told(snapshot: MetricsSnapshot): void {
    this.#told.update(snapshot);
    this.#answer.wake();
  }

  /** The thread has ended: the next one counts from zero. */
  ended(): void {
    this.#told.ended();
    this.#answer.wake();
  }

  /** The totals, as sent last. */
  all(): readonly MetricsSnapshot[] {
    return this.#told.all();
  }
}
