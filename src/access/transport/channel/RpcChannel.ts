import { status } from '@grpc/grpc-js';
import { abortReason, type Clock } from '../../../runtime/index.js';
import { openConnection, type ChannelOptions, type Connection } from './connection.js';
import type { NodeMetadata } from '../ports.js';
import type { CallStatus } from '../upstreamErrors.js';
import { metadataFor, shownStatus } from './sentMetadata.js';

/**
 * Bytes of one stream that may be in transit, or buffered here for a paused reader. It bounds a stream per round trip:
 * over 100 ms, 1 MiB is 10 MB/s. A larger window costs more than it looks: buffered messages outlive the young
 * generation and become garbage many times over. Measured while catching up: 2 MiB cost 16 MiB of
 * resident memory more than 1 MiB and are twice as fast at a distance, 4 MiB cost 55 MiB more.
 */
const FLOW_CONTROL_WINDOW_BYTES = 2 * 1024 * 1024;
/**
 * A unary call that has not ended this long after its deadline is ended here. gRPC takes deadlines from the wall clock,
 * which may be set; and no height may wait for ever.
 */
const OVERDUE_MS = 2_000;

/** Receives a stream, one message per `read()`. */
export interface StreamSink {
  onMessage(message: Buffer): void;
  /** The first one counts, and cancels the call; code 0 when the node ended the stream without an error. */
  onEnd(callStatus: CallStatus): void;
}

export interface StreamCall {
  /** Requests one more message. Nothing is read from the channel without it. */
  read(): void;
  cancel(): void;
}

export type Channel = Pick<RpcChannel, 'unary' | 'stream' | 'close'>;

export type OpenChannel = (
  options: ChannelOptions,
  dependencies: {
    readonly clock: Clock;
    /** What each call carries, read for each call. Default: nothing. */
    readonly metadata?: (() => NodeMetadata) | undefined;
  },
) => Channel;

/**
 * Bytes in, bytes out: unary calls and server streams over one gRPC connection to a node. It decodes nothing and retries
 * nothing. Uses grpc-js's channel directly instead of its client classes, because those read sixteen stream messages
 * ahead: here only the reader decides when the next message is taken.
 */
export class RpcChannel {
  readonly #clock: Clock;
  readonly #metadata: () => NodeMetadata;
  readonly #connection: Connection;
  /**
   * Calls that their callers abandoned, and that are left to run out. Bounded by the calls that the node answers late,
   * each until its deadline.
   */
  readonly #abandoned = new Set<StreamCall>();
  #calls = 0;
  #isClosed = false;

  constructor(options: ChannelOptions, dependencies: Parameters<OpenChannel>[1]) {
    this.#clock = dependencies.clock;
    this.#metadata = dependencies.metadata ?? (() => ({}));
    this.#connection = openConnection({ ...options, windowBytes: FLOW_CONTROL_WINDOW_BYTES }, this.#clock);
  }

  /** One request, one answer, or the status of a call that did not end with OK. Expected errors: the signal's abort reason. */
  unary(
    path: string,
    request: Buffer,
    limits: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
  ): Promise<Buffer | CallStatus> {
    const { signal } = limits;
    if (signal?.aborted === true) return Promise.reject(abortReason(signal));
    return new Promise((resolve, reject) => {
      let answer: Buffer | undefined;
      const onAbort = (): void => {
        if (signal !== undefined) reject(abortReason(signal));
        if (this.#connection.mayCancel()) call.cancel();
        else this.#abandoned.add(call);
      };
      const call = this.#open(path, request, this.#clock.now() + limits.timeoutMs, {
        onMessage: (message) => {
          answer = message;
        },
        onEnd: (callStatus) => {
          overdue.cancel();
          signal?.removeEventListener('abort', onAbort);
          this.#abandoned.delete(call);
          resolve(callStatus.code === status.OK ? (answer ?? NO_ANSWER) : callStatus);
        },
      });
      const overdue = this.#clock.setTimer(limits.timeoutMs + OVERDUE_MS, () => {
        signal?.removeEventListener('abort', onAbort);
        resolve(OVERDUE);
        call.cancel();
      });
      signal?.addEventListener('abort', onAbort, { once: true });
      call.read();
    });
  }

  /**
   * One request, a stream of answers, each taken by `read()`. It has no deadline; its reader watches freshness. It ends
   * without an error when the node accepts no more calls on this connection.
   */
  stream(path: string, request: Buffer, sink: StreamSink): StreamCall {
    const onEnd = (callStatus: CallStatus): void => {
      over();
      sink.onEnd(callStatus);
    };
    const call = this.#open(path, request, Infinity, { ...sink, onEnd });
    const over = this.#connection.streams(() => sink.onEnd(MADE_WAY));
    return {
      read: () => call.read(),
      cancel: () => {
        over();
        call.cancel();
      },
    };
  }

  /** Further calls fail with UNAVAILABLE. Calls under way go on: the connection closes with the last of them. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const call of this.#abandoned) call.cancel();
    this.#closeWhenUnused();
  }

  #open(path: string, request: Buffer, deadline: number, sink: StreamSink): StreamCall {
    if (this.#isClosed) {
      queueMicrotask(() => sink.onEnd(CHANNEL_CLOSED));
      return { read: () => undefined, cancel: () => undefined };
    }
    const sent = this.#metadata();
    const call = this.#connection.channel.createCall(path, deadline, null, null, null);
    this.#calls += 1;
    let ended = false;
    call.start(metadataFor(sent), {
      onReceiveMetadata: () => undefined,
      onReceiveMessage: (message: Buffer) => {
        if (!ended) sink.onMessage(message);
      },
      onReceiveStatus: (callStatus) => {
        if (ended) return;
        ended = true;
        this.#calls -= 1;
        this.#closeWhenUnused();
        sink.onEnd(shownStatus(callStatus, sent));
      },
    });
    call.sendMessageWithContext({}, request);
    call.halfClose();
    return {
      read: () => call.startRead(),
      cancel: () => call.cancelWithStatus(status.CANCELLED, 'cancelled by the client'),
    };
  }

  #closeWhenUnused(): void {
    if (this.#isClosed && this.#calls === 0) this.#connection.client.close();
  }
}

const MADE_WAY: CallStatus = { code: status.OK, details: '' };
const OVERDUE: CallStatus = {
  code: status.DEADLINE_EXCEEDED,
  details: 'the call had not ended long after its deadline',
};
const NO_ANSWER: CallStatus = { code: status.INTERNAL, details: 'the node ended the call without an answer' };
const CHANNEL_CLOSED: CallStatus = { code: status.UNAVAILABLE, details: 'the channel is closed' };
