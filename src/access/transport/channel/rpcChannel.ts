import { status } from '@grpc/grpc-js';
import { unlessAborted, type Clock } from '../../../runtime/index.js';
import { openConnection, type ChannelOptions } from './connection.js';
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

/** Bytes in, bytes out: unary calls and server streams over one gRPC connection to a node. It decodes and retries nothing. */
export interface Channel {
  /** One request, one answer, or the status of a call that did not end with OK. Expected errors: the signal's abort reason. */
  unary(
    path: string,
    request: Buffer,
    limits: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
  ): Promise<Buffer | CallStatus>;
  /**
   * One request, a stream of answers, each taken by `read()`. It has no deadline; its reader watches freshness. It ends
   * without an error when the node accepts no more calls on this connection.
   */
  stream(path: string, request: Buffer, sink: StreamSink): StreamCall;
  /** Further calls fail with UNAVAILABLE. Calls under way go on: the connection closes with the last of them. */
  close(): void;
}

export type OpenChannel = (
  options: ChannelOptions,
  dependencies: {
    readonly clock: Clock;
    /** What each call carries, read for each call. Default: nothing. */
    readonly metadata?: (() => NodeMetadata) | undefined;
  },
) => Channel;

/**
 * Uses grpc-js's channel directly instead of its client classes, because those read sixteen stream messages ahead: here
 * only the reader decides when the next message is taken.
 */
export const rpcChannel: OpenChannel = (options, { clock, metadata = () => ({}) }) => {
  const connection = openConnection({ ...options, windowBytes: FLOW_CONTROL_WINDOW_BYTES }, clock);
  /**
   * Calls that their callers abandoned, and that are left to run out. Bounded by the calls that the node answers late,
   * each until its deadline.
   */
  const abandoned = new Set<StreamCall>();
  let calls = 0;
  let isClosed = false;

  const closeWhenUnused = (): void => {
    if (isClosed && calls === 0) connection.channel.close();
  };

  const open = (path: string, request: Buffer, deadline: number, sink: StreamSink): StreamCall => {
    if (isClosed) {
      queueMicrotask(() => sink.onEnd(CHANNEL_CLOSED));
      return { read: () => undefined, cancel: () => undefined };
    }
    const sent = metadata();
    const call = connection.channel.createCall(path, deadline, null, null, null);
    calls += 1;
    call.start(metadataFor(sent), {
      onReceiveMetadata: () => undefined,
      onReceiveMessage: (message: Buffer) => sink.onMessage(message),
      onReceiveStatus: (callStatus) => {
        calls -= 1;
        closeWhenUnused();
        sink.onEnd(shownStatus(callStatus, sent));
      },
    });
    call.sendMessageWithContext({}, request);
    call.halfClose();
    return {
      read: () => call.startRead(),
      cancel: () => call.cancelWithStatus(status.CANCELLED, 'cancelled by the client'),
    };
  };

  return {
    unary: (path, request, { signal, timeoutMs }) =>
      unlessAborted<Buffer | CallStatus>(signal, (settle) => {
        let answer: Buffer | CallStatus = NO_ANSWER;
        let isOver = false;
        const call = open(path, request, clock.now() + timeoutMs, {
          onMessage: (message) => (answer = message),
          onEnd: (callStatus) => {
            isOver = true;
            abandoned.delete(call);
            settle(callStatus.code === status.OK ? answer : callStatus);
          },
        });
        const overdue = clock.setTimer(timeoutMs + OVERDUE_MS, () => {
          settle(OVERDUE);
          call.cancel();
        });
        call.read();
        return () => {
          overdue.cancel();
          if (isOver) return;
          if (connection.mayCancel()) call.cancel();
          else abandoned.add(call);
        };
      }),
    stream: (path, request, sink) => {
      const over = connection.onDrain(() => sink.onEnd(MADE_WAY));
      const onEnd = (callStatus: CallStatus): void => {
        over();
        sink.onEnd(callStatus);
      };
      return open(path, request, Infinity, { onMessage: (message) => sink.onMessage(message), onEnd });
    },
    close: () => {
      if (isClosed) return;
      isClosed = true;
      for (const call of abandoned) call.cancel();
      closeWhenUnused();
    },
  };
};

const MADE_WAY: CallStatus = { code: status.OK, details: '' };
const OVERDUE: CallStatus = {
  code: status.DEADLINE_EXCEEDED,
  details: 'the call had not ended long after its deadline',
};
const NO_ANSWER: CallStatus = { code: status.INTERNAL, details: 'the node ended the call without an answer' };
const CHANNEL_CLOSED: CallStatus = { code: status.UNAVAILABLE, details: 'the channel is closed' };
