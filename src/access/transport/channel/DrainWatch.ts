import { connectivityState } from '@grpc/grpc-js';
import type { ChannelInterface } from '@grpc/grpc-js';
import type { Clock } from '../../../runtime/index.js';

/** Wait before ending streams: if the connection broke, they have ended by then, each with its own status. */
const DRAIN_AFTER_MS = 1_000;

/**
 * A node that shuts down gracefully sends GOAWAY and waits for open calls. Streams would delay it for ever, so this ends
 * them. grpc-js reports a GOAWAY only as a connection that is no longer ready, while the calls on it continue.
 */
export class DrainWatch {
  readonly #channel: ChannelInterface;
  readonly #clock: Clock;
  /** A function per open stream, which ends it. */
  readonly #open = new Set<() => void>();
  #isWatching = false;

  constructor(dependencies: { readonly channel: ChannelInterface; readonly clock: Clock }) {
    this.#channel = dependencies.channel;
    this.#clock = dependencies.clock;
  }

  /** A stream was opened on the channel. Returns a function to call when it is over. */
  opened(end: () => void): () => void {
    this.#open.add(end);
    this.#watch();
    return () => this.#open.delete(end);
  }

  #watch(): void {
    if (this.#isWatching) return;
    const state = this.#channel.getConnectivityState(false);
    if (state === connectivityState.SHUTDOWN) return;
    this.#isWatching = true;
    this.#channel.watchConnectivityState(state, Infinity, () => {
      this.#isWatching = false;
      if (state === connectivityState.READY) this.#drain([...this.#open]);
      if (this.#open.size > 0) this.#watch();
    });
  }

  #drain(streams: readonly (() => void)[]): void {
    if (streams.length === 0) return;
    this.#clock.setTimer(DRAIN_AFTER_MS, () => {
      for (const end of streams) if (this.#open.delete(end)) end();
    });
  }
}
