import type { ReaderMetrics } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';

export type ApiMetrics = Pick<ReaderMetrics, 'apiRequests' | 'apiLatency'>;

/** Counts the requests of one interface, each once, when it is over. */
export class ApiRequests {
  readonly #interface: 'http' | 'grpc';
  readonly #clock: Clock;
  readonly #metrics: Partial<ApiMetrics>;

  constructor(
    options: { readonly interface: 'http' | 'grpc' },
    dependencies: {
      readonly clock: Clock;
      /** What is absent is not counted. */
      readonly metrics?: Partial<ApiMetrics> | undefined;
    },
  ) {
    this.#interface = options.interface;
    this.#clock = dependencies.clock;
    this.#metrics = dependencies.metrics ?? {};
  }

  /**
   * A request has arrived. Call the returned function with its status when it is over; only the first call counts.
   * `route` is one of a bounded number of names. A lasting request, such as a stream, has no meaningful duration.
   */
  begin(route: string, { isLasting }: { readonly isLasting: boolean }): (status: string) => void {
    const { apiLatency, apiRequests } = this.#metrics;
    const beganAtMs = this.#clock.monotonic();
    let isOver = false;
    return (status) => {
      if (isOver) return;
      isOver = true;
      const labels = { interface: this.#interface, route, status };
      apiRequests?.inc(labels);
      if (!isLasting) apiLatency?.observe(labels, (this.#clock.monotonic() - beganAtMs) / 1_000);
    };
  }
}
