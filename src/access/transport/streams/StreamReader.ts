import { AbortError, abortReason, asError, childOf, isAbort } from '../../../runtime/index.js';
import type { Clock, Timer } from '../../../runtime/index.js';
import { UpstreamError } from '../../UpstreamError.js';

interface Parts<T> {
  /** Opens the stream; the signal ends it. */
  readonly open: (signal: AbortSignal) => AsyncIterable<T>;
  /** Cancels the reader when it aborts. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** A read that takes longer ends as `silent`. Default: no limit. */
  readonly limitMs?: number;
  /** Receives a bug in the stream that appears after it was cancelled. Default: an unhandled rejection. */
  readonly onLateError?: (error: unknown) => void;
}

export type StreamRead<T> = IteratorResult<T, unknown> | 'silent';

/**
 * Reads a stream one item at a time. A pending read ends at once when the reader is cancelled, even if the stream
 * ignores its signal. One listener and one timer serve the whole stream: one of each per item would cost more than the
 * items of a fast stream. (Racing each read against one long-lived promise would leak a reaction per item.) Cancel it
 * when done.
 */
export class StreamReader<T> {
  readonly #parts: Parts<T>;
  readonly #over: ReturnType<typeof childOf>;
  readonly #iterator: AsyncIterator<T>;
  /** The last read, which may be over: then neither does anything. */
  #read: { resolve(result: StreamRead<T>): void; reject(error: Error): void } | undefined;
  #readAtMs = 0;
  #timer: Timer | undefined;

  constructor(parts: Parts<T>) {
    this.#parts = parts;
    this.#over = childOf(parts.signal);
    const { signal } = this.#over;
    this.#iterator = parts.open(signal)[Symbol.asyncIterator]();
    signal.addEventListener('abort', () => this.#end(abortReason(signal)), { once: true });
  }

  /**
   * The next item; one read at a time. Expected errors: those of the stream, and the reason with which the reader or its
   * signal was cancelled.
   */
  read(): Promise<StreamRead<T>> {
    const { signal } = this.#over;
    const { clock, limitMs } = this.#parts;
    if (signal.aborted) return Promise.reject(abortReason(signal));
    return new Promise((resolve, reject) => {
      this.#read = { resolve, reject };
      // The timer of an earlier read is used again: when it fires, it is set for the rest.
      this.#readAtMs = clock.monotonic();
      if (limitMs !== undefined) this.#timer ??= this.#setTimer(limitMs, limitMs);
      this.#iterator.next().then(resolve, (error: unknown) => {
        if (signal.aborted) this.#judgeLate(error);
        else reject(asError(error));
      });
    });
  }

  /**
   * Ends the stream; a pending read rejects with the reason. Does not wait: a hanging stream cannot block its reader.
   * Idempotent: the first reason wins.
   */
  cancel(reason: Error = new AbortError()): void {
    this.#over.abort(reason);
  }

  #end(reason: Error): void {
    this.#timer?.cancel();
    this.#read?.reject(reason);
    this.#iterator.return?.().catch((error: unknown) => this.#judgeLate(error));
  }

  #setTimer(delayMs: number, limitMs: number): Timer {
    const { clock } = this.#parts;
    return clock.setTimer(delayMs, () => {
      const restMs = this.#readAtMs + limitMs - clock.monotonic();
      this.#timer = restMs > 0 ? this.#setTimer(restMs, limitMs) : undefined;
      if (restMs <= 0) this.#read?.resolve('silent');
    });
  }

  #judgeLate(error: unknown): void {
    if (error === this.#over.signal.reason || isExpectedEnd(error)) return;
    const { onLateError } = this.#parts;
    if (onLateError === undefined) throw error;
    onLateError(error);
  }
}

/**
 * True for failures that need no attention after cancellation: aborts, and errors of the node. Anything else is a bug.
 */
export function isExpectedEnd(error: unknown): boolean {
  return isAbort(error) || error instanceof UpstreamError;
}

/** A stream that is further behind at the end of this time than at its start is too slow … */
const PACE_SPAN_MS = 30_000;
/** … unless it is at most this many heights behind. */
export const SLACK_HEIGHTS = 32;

/** Finds out that a stream delivers, and more slowly than the chain grows. */
export function streamPace() {
  let span: { readonly atMs: number; readonly lag: number; readonly next: number } | undefined;
  return {
    /** Begins anew: ground lost while we do not read is not the stream's fault. */
    rest: (): void => void (span = undefined),
    /** What is wrong with it, in words. `next`: its next height; `due`: the highest that it could have delivered by now. */
    fault: (next: number, due: number, nowMs: number): string | undefined => {
      const lag = due + 1 - next;
      const start = span;
      // Where nothing has come since, the silence decides.
      const isOver = start !== undefined && next > start.next && nowMs - start.atMs >= PACE_SPAN_MS;
      if (lag <= SLACK_HEIGHTS || isOver) span = undefined;
      else span ??= { atMs: nowMs, lag, next };
      return isOver && lag > Math.max(start.lag, SLACK_HEIGHTS)
        ? 'the stream is slower than the chain grows'
        : undefined;
    },
  };
}
