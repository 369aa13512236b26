import type { Clock } from '../../runtime/index.js';

/** After a node refused a stream because it has none left, we open no stream there that we can do without for this long. */
const SCARCE_MS = 60_000;

/**
 * The streams of one node that make way where it grants few: those of our own that can be polled instead, and those that are
 * forwarded for others.
 */
export class StreamQuota {
  readonly #clock: Clock;
  /** Ends each open stream that makes way. */
  readonly #open = new Set<() => void>();
  #untilMs = -Infinity;

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
  }

  /** True while no stream should be opened that can do without. */
  get scarce(): boolean {
    return this.#clock.monotonic() < this.#untilMs;
  }

  /** A stream that makes way was opened. Returns a function to call when it is over. */
  yielding(end: () => void): () => void {
    this.#open.add(end);
    return () => this.#open.delete(end);
  }

  /** The node has no stream to spare. Where it is one that cannot do without that gets none, the others make way. */
  refused({ makesWay }: { readonly makesWay: boolean }): void {
    this.#untilMs = this.#clock.monotonic() + SCARCE_MS;
    if (makesWay) return;
    for (const end of [...this.#open]) end();
  }
}
