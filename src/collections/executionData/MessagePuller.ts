import { UpstreamError } from '../../access/index.js';
import { isAbort } from '../../runtime/index.js';

export interface MessagePullerDependencies<T> {
  /** Opens the stream; the signal ends it. */
  open(signal: AbortSignal): AsyncIterable<T>;
  /** Takes what the stream throws after `cancel` and that is no way for a cancelled stream to end: a bug. */
  onLateError(error: unknown): void;
}

/**
 * A stream read one message at a time, that can be cancelled from outside while a read is pending: the read then ends at
 * once, whether or not the stream heeds its signal. (Racing each read against one long-lived promise would do the same
 * and leak a reaction per message.)
 */
export class MessagePuller<T> {
  readonly #controller = new AbortController();
  readonly #iterator: AsyncIterator<T>;
  readonly #onLateError: (error: unknown) => void;
  #rejectPending: ((error: Error) => void) | undefined;
  #cancelled: Error | undefined;

  constructor(dependencies: MessagePullerDependencies<T>) {
    this.#onLateError = (error) => dependencies.onLateError(error);
    this.#iterator = dependencies.open(this.#controller.signal)[Symbol.asyncIterator]();
  }

  /**
   * The next message; `undefined` when the stream has ended.
   * Expected errors: whatever the stream throws; the reason it was cancelled with.
   */
  pull(): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      if (this.#cancelled !== undefined) {
        reject(this.#cancelled);
        return;
      }
      this.#rejectPending = reject;
      this.#iterator.next().then(
        (result) => {
          this.#rejectPending = undefined;
          resolve(result.done === true ? undefined : result.value);
        },
        (error: unknown) => {
          this.#rejectPending = undefined;
          if (this.#cancelled !== undefined) this.#judgeLate(error);
          reject(error instanceof Error ? error : new Error(String(error)));
        },
      );
    });
  }

  /** Ends the stream; a pending read is rejected with the reason. Idempotent: the first reason stands. */
  cancel(reason: Error): void {
    if (this.#cancelled !== undefined) return;
    this.#cancelled = reason;
    this.#rejectPending?.(reason);
    this.#controller.abort(reason);
    this.#iterator.return?.().catch((error: unknown) => this.#judgeLate(error));
  }

  #judgeLate(error: unknown): void {
    if (error === this.#cancelled || isAbort(error) || error instanceof UpstreamError) return;
    this.#onLateError(error);
  }
}
