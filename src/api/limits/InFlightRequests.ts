import type { Clock, Timer } from '../../runtime/index.js';

/** For what is under way when a server closes; then its connections are cut. */
export const CLOSE_GRACE_MS = 2_000;

/** How a server ends. */
export interface ServerEnd {
  /** Listens no longer. Resolves when the last connection is gone, however long its answer takes. */
  readonly stop: () => Promise<void>;
  /** Cuts what is left when the grace is over. Must not throw. */
  readonly cut: () => void | Promise<void>;
}

/**
 * What the handlers of a server have begun and not answered yet, whether or not their callers still wait: what they read from
 * must not be closed under them.
 */
export class InFlightRequests {
  readonly #clock: Clock;
  #count = 0;
  #onNone: (() => void) | undefined;

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
  }

  /** Requests under way. */
  get count(): number {
    return this.#count;
  }

  async run<T>(handler: () => Promise<T>): Promise<T> {
    this.#count += 1;
    try {
      return await handler();
    } finally {
      this.#count -= 1;
      if (this.#count === 0) this.#onNone?.();
    }
  }

  /** Ends a server: resolves when its connections are gone and nothing is under way, or the grace, CLOSE_GRACE_MS, is over. */
  async end({ cut, stop }: ServerEnd): Promise<void> {
    let timer: Timer | undefined;
    const graceIsOver = new Promise<void>((resolve) => {
      timer = this.#clock.setTimer(CLOSE_GRACE_MS, () => void Promise.resolve(cut()).then(resolve));
    });
    try {
      await stop();
      if (this.#count > 0) {
        await Promise.race([graceIsOver, new Promise<void>((resolve) => (this.#onNone = resolve))]);
      }
    } finally {
      timer?.cancel();
    }
  }
}
