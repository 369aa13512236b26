import type { ServerWritableStream } from '@grpc/grpc-js';
import { RequestFields, WireError } from '../../flow/index.js';
import { ApiError } from '../view/ApiError.js';

/**
 * Returns an encoded message. Throws ApiError or StorageError for what is expected; anything else it throws is a bug.
 */
export type UnaryCall = (request: RequestFields) => Buffer | Promise<Buffer>;

/** An open response stream. */
export interface StreamSink {
  /** False when the message was dropped because earlier ones are not taken yet. */
  send(message: Buffer): boolean;
  /** Sends a message, and calls back once the caller has granted the credit for it. */
  write(message: Buffer, onTaken: () => void): void;
  /** Ends the stream with this reason: an ApiError or StorageError; anything else is a bug. */
  refuse(reason: unknown): void;
}

/** Begins a stream; returns a function to call when it is over. Expected errors: as `UnaryCall`. */
export type StreamCall = (request: RequestFields, sink: StreamSink) => (() => void) | Promise<() => void>;

/** Answers each message of an open call with one, in order. Expected errors: as `UnaryCall`; they end the call. */
export type Conversation = (request: Buffer) => Buffer;

/** What is served, by path (`/package.Service/Method`). */
export interface GrpcCalls {
  readonly unary: Readonly<Record<string, UnaryCall>>;
  readonly streams: Readonly<Record<string, StreamCall>>;
  readonly conversations: Readonly<Record<string, Conversation>>;
  /** Calls that the index does not serve, and why: refused at once whatever they send, or forwarded. */
  readonly refused: Readonly<Record<string, ApiError>>;
}

/** Expected errors: ApiError (bad_request). */
export function fieldsOf(request: Buffer): RequestFields {
  try {
    return new RequestFields(request);
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    throw new ApiError(400, 'bad_request', `the request cannot be read: ${error.message}`);
  }
}

/** Writing to an open call, and refusing it. */
export function sinkOf(call: ServerWritableStream<Buffer, Buffer>, refuse: StreamSink['refuse']): StreamSink {
  return {
    send: (message) => {
      if (call.writableNeedDrain) return false;
      call.write(message);
      return true;
    },
    write: (message, onTaken) => {
      call.write(message, (error: Error | null | undefined) => {
        if (error === null || error === undefined) onTaken();
      });
    },
    refuse,
  };
}
