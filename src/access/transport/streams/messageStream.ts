import { status } from '@grpc/grpc-js';
import { abortReason, asError, type Clock } from '../../../runtime/index.js';
import type { StreamCall, StreamSink } from '../channel/RpcChannel.js';
import type { CallStatus } from '../upstreamErrors.js';

/** How to open and decode one stream, and how to type its errors. */
export interface StreamSource<T> {
  open(sink: StreamSink): StreamCall;
  /** An error ends the stream, and is thrown to the reader. */
  decode(message: Buffer): T;
  /** Turns a status into the reader's error. */
  fail(callStatus: CallStatus): Error;
}

interface Reader<T> {
  readonly resolve: (result: IteratorResult<T, undefined>) => void;
  readonly reject: (error: Error) => void;
}

const DONE: IteratorReturnResult<undefined> = { done: true, value: undefined };

/**
 * A server stream as an async iterator: each `next()` requests one message from the channel, and nothing is read ahead.
 * Not an async generator, for speed: one promise per message. The first `next()` opens the call. Expected errors: those of
 * the source's `fail`; the signal's abort reason.
 */
export function messageStream<T>(
  source: StreamSource<T>,
  signal: AbortSignal,
): AsyncIterableIterator<T, undefined> {
  let call: StreamCall | undefined;
  let reader: Reader<T> | undefined;
  /** Set once the stream is over: what the next `next()` throws, if anything. */
  let end: { readonly error: Error | undefined } | undefined;

  const onAbort = (): void => finish(abortReason(signal));
  const finish = (error?: Error): void => {
    const [ended, waiting] = [call, reader];
    call = reader = undefined;
    signal.removeEventListener('abort', onAbort);
    end = { error: waiting === undefined ? error : undefined };
    ended?.cancel();
    if (error === undefined) waiting?.resolve(DONE);
    else waiting?.reject(error);
  };
  const deliver = (message: Buffer): void => {
    try {
      const value = source.decode(message);
      const waiting = reader;
      reader = undefined;
      waiting?.resolve({ done: false, value });
    } catch (error) {
      finish(asError(error));
    }
  };
  const start = (): StreamCall => {
    const opened = source.open({
      onMessage: (message) => {
        if (call === opened) deliver(message);
      },
      onEnd: (callStatus) => {
        if (call === opened) finish(callStatus.code === status.OK ? undefined : source.fail(callStatus));
      },
    });
    signal.addEventListener('abort', onAbort, { once: true });
    return opened;
  };

  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next() {
      if (end === undefined && signal.aborted) finish(abortReason(signal));
      if (end !== undefined) {
        const { error } = end;
        // An error is thrown once; afterwards the iterator is simply done.
        end = { error: undefined };
        return error === undefined ? Promise.resolve(DONE) : Promise.reject(error);
      }
      return new Promise((resolve, reject) => {
        reader = { resolve, reject };
        call ??= start();
        call.read();
      });
    },
    /** Cancels the call. A pending read ends as the end of the stream. */
    return() {
      if (end === undefined) finish();
      return Promise.resolve(DONE);
    },
  };
}

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

type Dispensable = Exclude<StreamRank, 'needed'>;

/** The streams of one node that make way when it grants few. */
export function streamQuota({ clock }: { readonly clock: Clock }) {
  /** A function per open stream that makes way, which ends it. */
  const open = { spare: new Set<() => void>(), history: new Set<() => void>() };
  /** Until when no stream of this rank should be opened. */
  const scarceUntilMs = { spare: -Infinity, history: -Infinity };
  return {
    /** True while no stream of this rank should be opened. */
    isScarce: (rank: Dispensable): boolean => clock.monotonic() < scarceUntilMs[rank],
    /** A stream that makes way was opened. Returns a function to call when it is over. */
    yielding(end: () => void, rank: Dispensable = 'spare'): () => void {
      open[rank].add(end);
      return () => open[rank].delete(end);
    },
    /** The node refused a stream for lack of streams: those of a lower rank make way. */
    refused(rank: StreamRank): void {
      scarceUntilMs.history = clock.monotonic() + SCARCE_MS;
      if (rank === 'history') return;
      scarceUntilMs.spare = scarceUntilMs.history;
      for (const end of [...open.history]) end();
      if (rank === 'needed') for (const end of [...open.spare]) end();
    },
  };
}
