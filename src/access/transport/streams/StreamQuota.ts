import type { Clock } from '../../../runtime/index.js';

/** After a node refused a stream for lack of streams, no dispensable stream is opened there for this long. */
const SCARCE_MS = 60_000;

/** The priority of a stream: those of a lower rank make way first. */
export type StreamRank =
  /** Indispensable. */
  | 'needed'
  /** Its data can be polled instead, or it is forwarded. */
  | 'spare'
  /** For filling in history. */
  | 'history';

/** The streams of one node that make way when it grants few. */
export class StreamQuota {
  readonly #clock: Clock;
  /** A function per open stream that makes way, which ends it. */
  readonly #open = { spare: new Set<() => void>(), history: new Set<() => void>() };
  #untilMs = -Infinity;
  #historyUntilMs = -Infinity;

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
  }

  /** True while no dispensable stream should be opened. */
  get scarce(): boolean {
    return this.#clock.monotonic() < this.#untilMs;
  }

  /** True while history gets no stream. */
  get scarceForHistory(): boolean {
    return this.scarce || this.#clock.monotonic() < this.#historyUntilMs;
  }

  /** A stream that makes way was opened. Returns a function to call when it is over. */
  yielding(end: () => void, rank: Exclude<StreamRank, 'needed'> = 'spare'): () => void {
    const open = this.#open[rank];
    open.add(end);
    return () => open.delete(end);
  }

  /** The node refused a stream for lack of streams: those of a lower rank make way. */
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
