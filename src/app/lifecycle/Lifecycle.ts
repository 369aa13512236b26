import { setMaxListeners } from 'node:events';
import { AbortError, childOf, messageOf, whenAborted } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import type { Logger } from '../../observability/index.js';

/**
 * How long closing may take before the rest is abandoned. The process must end within 10 s of the signal; the remaining
 * time is for its exit.
 */
export const STOP_TIMEOUT_MS = 8_000;
/** More who wait for the end at once are a leak, of which Node.js warns. */
const MAX_STOP_LISTENERS = 64;

/**
 * The life cycle of the daemon: one signal that says "stop taking work", one list of things to close (in reverse order
 * of creation), and the first unexpected error, which ends everything (invariant 11).
 */
export class Lifecycle {
  readonly #controller = new AbortController();
  readonly #closers: { readonly name: string; readonly close: () => void | Promise<void> }[] = [];
  readonly #clock: Clock;
  readonly #logger: Logger;
  #failure: { readonly error: unknown } | undefined;
  /** Monotonic milliseconds by which everything must be closed; set when the daemon is told to stop. */
  #closedByMs = Infinity;

  constructor(dependencies: { readonly clock: Clock; readonly logger: Logger }) {
    this.#clock = dependencies.clock;
    this.#logger = dependencies.logger;
    // Every part of the daemon listens, and so do the service manager's messages.
    setMaxListeners(MAX_STOP_LISTENERS, this.signal);
  }

  /** Aborted as soon as the daemon is to stop, for whatever reason. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Stops the daemon on request. Idempotent. */
  stop(): void {
    if (this.signal.aborted) return;
    this.#closedByMs = this.#clock.monotonic() + STOP_TIMEOUT_MS;
    this.#controller.abort(new AbortError('stopping'));
  }

  /** Stops the daemon because of an unexpected error; `outcome` throws the first one. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.stop();
  }

  /** Watches a loop that should only end when the daemon stops; its rejection is fatal. */
  supervise(running: Promise<unknown>): void {
    running.catch((error: unknown) => {
      if (!(error instanceof AbortError && this.signal.aborted)) this.fail(error);
    });
  }

  /** Registers something to close; the last one registered is closed first. */
  onClose(name: string, close: () => void | Promise<void>): void {
    this.#closers.push({ name, close });
  }

  /** Resolves when the daemon is to stop. */
  stopped(): Promise<void> {
    return whenAborted(this.signal);
  }

  /** The result of `work`, or `undefined` once the daemon is to stop. Leaves no listener behind. */
  async unlessStopped<T>(work: Promise<T>): Promise<T | undefined> {
    const scope = childOf(this.signal);
    try {
      return await Promise.race([work, whenAborted(scope.signal).then(() => undefined)]);
    } finally {
      scope.abort();
    }
  }

  /**
   * Waits for work that ends when the daemon stops, but then no longer than closing may take. Its failure ends the
   * daemon.
   */
  async waitFor(name: string, work: Promise<void>): Promise<void> {
    this.supervise(work);
    const ended = work.catch(() => undefined);
    await Promise.race([ended, this.stopped()]);
    await this.#withinLimit(name, ended);
  }

  /**
   * Closes everything in reverse order within STOP_TIMEOUT_MS of the stop, then throws the first unexpected error if
   * there was one. An error while closing is logged and does not keep the rest from closing; it is thrown when
   * nothing else failed.
   */
  async close(): Promise<void> {
    this.stop();
    for (const { name, close } of this.#closers.splice(0).reverse()) {
      try {
        await this.#withinLimit(name, Promise.resolve(close()));
      } catch (error) {
        this.#logger.error({ part: name, error: messageOf(error) }, 'part failed to close');
        this.#failure ??= { error };
      }
    }
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  async #withinLimit(name: string, work: Promise<void>): Promise<void> {
    let timer: Timer | undefined;
    const timeout = new Promise<boolean>((resolve) => {
      if (this.#closedByMs === Infinity) return;
      const leftMs = Math.max(0, this.#closedByMs - this.#clock.monotonic());
      timer = this.#clock.setTimer(leftMs, () => resolve(false));
    });
    try {
      const finished = await Promise.race([work.then(() => true), timeout]);
      if (!finished)
        this.#logger.warn({ part: name, limitMs: STOP_TIMEOUT_MS }, 'part did not close in time');
    } finally {
      timer?.cancel();
    }
  }
}
