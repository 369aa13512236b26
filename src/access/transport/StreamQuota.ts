import type { Clock } from '../../runtime/index.js';

/** After a node refused a stream because it has none left, we open no stream there that we can do without for this long. */
const SCARCE_MS = 60_000;

/** How a stream is opened: those of a lower rank make way first. */
export type StreamRank =
  /** Cannot do without. */
  | 'needed'
  /** Can be polled instead, or is forwarded for others. */
  | 'spare'
  /** History is filled in by it. */
  | 'history';

/** The streams of one node that make way where it grants few. */
export class StreamQuota {
  readonly #clock: Clock;
  /** Ends each open stream that makes way. */
  readonly #open = { spare: new Set<() => void>(), history: new Set<() => void>() };
  #untilMs = -Infinity;
  #historyUntilMs = -Infinity;

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
  }

  /** True while no stream should be opened that can do without. */
  get scarce(): boolean {
    return this.#clock.monotonic() < this.#untilMs;
  }

  /** True while history gets no stream. */
  get scarceForHistory(): boolean {
    return this.scarce || this.#clock.monotonic() < this.#historyUntilMs;
  }

  /** A stream that makes way was opened. Returns what is to be called when it is over. */
  yielding(end: () => void, rank: Exclude<StreamRank, 'needed'> = 'spare'): () => void {
    const open = this.#open[rank];
    open.add(end);
    return () => open.delete(end);
  }

  /** The node has no stream to spare. Those of a lower rank than the one that got none make way. */
  refused(rank: StreamRank): void {
    const untilMs = this.#clock.monotonic() + SCARCE_MS;
    if (rank === 'history') {
      this.#historyUntilMs = untilMs;
      return;
    }
    this.#untilMs = untilMs;
    for (const end of [...this.#open.history]) end();
    if (rank === 'needed') for (const end of [...this.#open.spare]) end();
  }
}
