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
 * Not an async generator, for speed: one promise per message. The first `next()` opens the call.
 */
export class MessageStream<T> implements AsyncIterableIterator<T, undefined> {
  readonly #source: StreamSource<T>;
  readonly #signal: AbortSignal;
  #call: StreamCall | undefined;
  #reader: Reader<T> | undefined;
  /** Set once the stream is over: what the next `next()` throws, if anything. */
  #end: { readonly error: Error | undefined } | undefined;

  constructor(source: StreamSource<T>, signal: AbortSignal) {
    this.#source = source;
    this.#signal = signal;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Expected errors: those of the source's `fail`; the signal's abort reason. */
  next(): Promise<IteratorResult<T, undefined>> {
    if (this.#end === undefined && this.#signal.aborted) this.#finish(abortReason(this.#signal));
    if (this.#end !== undefined) {
      const { error } = this.#end;
      // An error is thrown once; afterwards the iterator is simply done.
      this.#end = { error: undefined };
      return error === undefined ? Promise.resolve(DONE) : Promise.reject(error);
    }
    if (this.#reader !== undefined) {
      return Promise.reject(new Error('a stream is read by one reader, one message at a time'));
    }
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject };
      if (this.#call === undefined) {
        this.#signal.addEventListener('abort', this.#onAbort, { once: true });
        this.#start();
      } else {
        this.#call.read();
      }
    });
  }

  /** Cancels the call. A pending read ends as the end of the stream. */
  return(): Promise<IteratorResult<T, undefined>> {
    if (this.#end === undefined) this.#finish(undefined);
    return Promise.resolve(DONE);
  }

  #start(): void {
    try {
      const call = this.#source.open({
        onMessage: (message) => {
          if (this.#call === call) this.#deliver(message);
        },
        onEnd: (callStatus) => {
          if (this.#call !== call) return;
          this.#finish(callStatus.code === status.OK ? undefined : this.#source.fail(callStatus));
        },
      });
      this.#call = call;
      call.read();
    } catch (error) {
      this.#finish(asError(error));
    }
  }

  #deliver(message: Buffer): void {
    const reader = this.#reader;
    // No message arrives without a read; dropping one would leave a gap.
    if (reader === undefined) {
      this.#finish(new Error('the channel delivered a message that nobody asked for'));
      return;
    }
    let value: T;
    try {
      value = this.#source.decode(message);
    } catch (error) {
      this.#finish(asError(error));
      return;
    }
    this.#reader = undefined;
    reader.resolve({ done: false, value });
  }

  #finish(error: Error | undefined): void {
    const reader = this.#reader;
    const call = this.#call;
    this.#reader = undefined;
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#call = undefined;
    this.#end = { error: reader === undefined ? error : undefined };
    call?.cancel();
    if (reader === undefined) return;
    if (error === undefined) reader.resolve(DONE);
    else reader.reject(error);
  }

  readonly #onAbort = (): void => {
    this.#finish(abortReason(this.#signal));
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

/** The streams of one node that make way when it grants few. */
export class StreamQuota {
  readonly #clock: Clock;
  /** A function per open stream that makes way, which ends it. */
  readonly #open = { spare: new Set<() => void>(), history: new Set<() => void>() };
  /** Until when no stream of this rank should be opened. */
  readonly #scarceUntilMs = { spare: -Infinity, history: -Infinity };

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
  }

  /** True while no stream of this rank should be opened. */
  isScarce(rank: Exclude<StreamRank, 'needed'>): boolean {
    return this.#clock.monotonic() < this.#scarceUntilMs[rank];
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
    this.#scarceUntilMs.history = untilMs;
    if (rank === 'history') return;
    this.#scarceUntilMs.spare = untilMs;
    for (const end of [...this.#open.history]) end();
    if (rank === 'needed') for (const end of [...this.#open.spare]) end();
  }
}
