import { setMaxListeners } from 'node:events';
import { AbortError, every, messageOf, wasAborted, whenAborted, within } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { Logger } from '../../observability/index.js';
import { DatabaseFault } from '../../storage/index.js';

/**
 * How long closing may take before the rest is abandoned. The process must end within 10 s of the signal; the remaining
 * time is for its exit.
 */
export const STOP_TIMEOUT_MS = 8_000;
/** How often a step of the start that is not over is logged. */
const STEP_LOGGED_EVERY_MS = 10_000;
/** More listeners for the stop at once are a leak, for which Node.js warns. */
const MAX_STOP_LISTENERS = 64;

export type Lifecycle = ReturnType<typeof openLifecycle>;

/**
 * The life cycle of the daemon: one signal that says "stop taking work", one list of things to close (in reverse order
 * of creation), and the first unexpected error, which ends everything (invariant 11).
 */
export function openLifecycle({ clock, logger }: { readonly clock: Clock; readonly logger: Logger }) {
  const controller = new AbortController();
  /** Aborted as soon as the daemon must stop, for any reason. */
  const signal: AbortSignal = controller.signal;
  const closers: { readonly name: string; readonly close: () => void | Promise<void> }[] = [];
  let failure: { readonly error: unknown } | undefined;
  /** Monotonic milliseconds by which everything must be closed; set when the daemon is told to stop. */
  let closedByMs = 0;
  // Every part of the daemon listens, and so do the service manager's messages.
  setMaxListeners(MAX_STOP_LISTENERS, signal);

  /** Stops the daemon on request. Idempotent. */
  const stop = (): void => {
    if (signal.aborted) return;
    closedByMs = clock.monotonic() + STOP_TIMEOUT_MS;
    controller.abort(new AbortError('stopping'));
  };

  /** Stops the daemon because of an unexpected error; `outcome` throws the first one. */
  const fail = (error: unknown): void => {
    // Once stopping, it no longer waits for a database: what is not durable is fetched again.
    if (signal.aborted && error instanceof DatabaseFault) return;
    failure ??= { error };
    stop();
  };

  /** Watches a loop that should only end when the daemon stops; its rejection is fatal. */
  const supervise = (running: Promise<unknown>): void => {
    running.catch((error: unknown) => {
      if (!wasAborted(error, signal)) fail(error);
    });
  };

  /** A step of the start, which may take minutes: every 10 s the log says so, and `onSlow` is called. */
  const step = <T>(name: string, work: Promise<T>, onSlow?: () => void): Promise<T> => {
    let seconds = 0;
    const logging = every(clock, STEP_LOGGED_EVERY_MS, () => {
      seconds += STEP_LOGGED_EVERY_MS / 1_000;
      logger.info({ step: name, seconds }, 'a step of the start takes its time');
      onSlow?.();
    });
    return work.finally(() => logging.cancel());
  };

  /** Registers something to close; the last one registered is closed first. */
  const onClose = (name: string, close: () => void | Promise<void>): void =>
    void closers.push({ name, close });

  /** Supervises work that reads or writes the store, which closes only after it has ended. */
  const untilStopped = (name: string, running: Promise<void>): void => {
    supervise(running);
    onClose(name, () => running.catch(() => undefined));
  };

  /**
   * Waits for work that ends when the daemon stops, from then on only as long as closing may take. Its failure ends the
   * daemon.
   */
  const waitFor = async (name: string, work: Promise<void>): Promise<void> => {
    supervise(work);
    const ended = work.catch(() => undefined);
    await Promise.race([ended, whenAborted(signal)]);
    if (signal.aborted) await withinLimit(name, ended);
  };

  /**
   * Closes everything in reverse order within STOP_TIMEOUT_MS of the stop, then throws the first unexpected error if
   * there was one. An error while closing is logged and does not keep the rest from closing; it is thrown when
   * nothing else failed.
   */
  const close = async (): Promise<void> => {
    stop();
    for (const { name, close } of closers.splice(0).reverse()) {
      try {
        await withinLimit(name, Promise.resolve(close()));
      } catch (error) {
        logger.error({ part: name, error: messageOf(error) }, 'part failed to close');
        fail(error);
      }
    }
    if (failure !== undefined) throw failure.error;
  };

  const withinLimit = async (name: string, work: Promise<void>): Promise<void> => {
    const leftMs = Math.max(0, closedByMs - clock.monotonic());
    if ((await within(clock, leftMs, work)) === 'late')
      logger.warn({ part: name, limitMs: STOP_TIMEOUT_MS }, 'part did not close in time');
  };

  return { signal, stop, fail, supervise, step, onClose, untilStopped, waitFor, close };
}
