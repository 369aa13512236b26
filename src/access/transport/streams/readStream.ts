import { AbortError, abortReason, childOf, type Clock, type Timer } from '../../../runtime/index.js';

export type StreamRead<T> = IteratorResult<T, unknown> | 'silent';
export type StreamReader<T> = ReturnType<typeof readStream<T>>;

/**
 * Reads a stream one item at a time. A pending read ends at once when the reader is cancelled, even if the stream ignores its
 * signal. One listener and one timer serve the whole stream: one of each per item would cost more than the items of a fast stream.
 * Cancel it when done.
 */
export function readStream<T>({
  clock,
  limitMs,
  open,
  signal,
}: {
  /** Opens the stream; the signal ends it. */
  readonly open: (signal: AbortSignal) => AsyncIterable<T>;
  /** Cancels the reader when it aborts. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** A read that takes longer ends as `silent`; the next one waits for the same item. Default: no limit. */
  readonly limitMs?: number;
}) {
  const over = childOf(signal);
  const iterator = open(over.signal)[Symbol.asyncIterator]();
  let readAtMs = 0;
  /** Ends the last read, unless that is over. */
  let endRead = (): void => undefined;
  let timer: Timer | undefined;
  /** The item that was requested from the stream, and has not arrived yet. */
  let asked: Promise<IteratorResult<T, unknown>> | undefined;
  const watch = (forMs: number): void => {
    timer ??= clock.setTimer(forMs, () => {
      timer = undefined;
      const restMs = readAtMs + (limitMs ?? 0) - clock.monotonic();
      if (restMs > 0) watch(restMs);
      else endRead();
    });
  };
  over.signal.addEventListener('abort', () => endRead(), { once: true });
  return {
    /**
     * The next item; one read at a time. Expected errors: those of the stream, and the reason with which the reader or its
     * signal was cancelled.
     */
    read: (): Promise<StreamRead<T>> => {
      if (over.signal.aborted) return Promise.reject(abortReason(over.signal));
      return new Promise((resolve, reject) => {
        endRead = () => (over.signal.aborted ? reject(abortReason(over.signal)) : resolve('silent'));
        readAtMs = clock.monotonic();
        // The timer of an earlier read is used again: when it fires, it is set for the rest.
        if (limitMs !== undefined) watch(limitMs);
        asked ??= iterator.next();
        asked.then((item) => {
          asked = undefined;
          resolve(item);
        }, reject);
      });
    },
    /** Ends the stream; a pending read rejects with the reason. Idempotent: the first reason wins. */
    cancel: (reason: Error = new AbortError()): void => {
      timer?.cancel();
      over.abort(reason);
      // Errors after the end are dropped.
      iterator.return?.().catch(() => undefined);
    },
  };
}

/** A stream that is further behind at the end of this time than at its start is too slow … */
const PACE_SPAN_MS = 30_000;
/** … unless it is at most this many heights behind. */
export const SLACK_HEIGHTS = 32;

/** Detects a stream that delivers, but more slowly than the chain grows. */
export function streamPace() {
  let span: { readonly atMs: number; readonly lag: number; readonly next: number } | undefined;
  return {
    /** Restarts the measurement: ground lost while we do not read is not the stream's fault. */
    rest: (): void => void (span = undefined),
    /** Its fault, in words. `next`: its next height; `due`: the highest that it could have delivered by now. */
    fault: (next: number, due: number, nowMs: number): string | undefined => {
      const lag = due + 1 - next;
      const start = span;
      // If nothing has arrived since, the limit on silence decides.
      const isOver = start !== undefined && next > start.next && nowMs - start.atMs >= PACE_SPAN_MS;
      if (lag <= SLACK_HEIGHTS || isOver) span = undefined;
      else span ??= { atMs: nowMs, lag, next };
      return isOver && lag > Math.max(start.lag, SLACK_HEIGHTS)
        ? 'the stream is slower than the chain grows'
        : undefined;
    },
  };
}
