import type { ServerWritableStream } from '@grpc/grpc-js';
import { RequestFields, WireError } from '../../flow/index.js';
import { ApiError } from '../errors.js';
import { refusalOf } from './status.js';

/**
 * Answers with an encoded message. Throws ApiError or StorageError for what is expected; anything else it throws is a bug.
 */
export type UnaryCall = (request: RequestFields) => Buffer | Promise<Buffer>;

/** One open stream of answers. */
export interface StreamSink {
  /** False when the message was dropped because the ones before it are not taken yet. */
  send(message: Buffer): boolean;
  /** Ends the stream, for this reason. */
  refuse(error: ApiError): void;
}

/** Begins a stream; returns what is to be called when it is over. Expected errors: as `UnaryCall`. */
export type StreamCall = (request: RequestFields, sink: StreamSink) => () => void;

/** Answers each message of an open call with one, in order. Expected errors: as `UnaryCall`; they end the call. */
export type Conversation = (request: Buffer) => Buffer;

/** What is served, by path (`/package.Service/Method`). */
export interface GrpcCalls {
  readonly unary: Readonly<Record<string, UnaryCall>>;
  readonly streams: Readonly<Record<string, StreamCall>>;
  readonly conversations: Readonly<Record<string, Conversation>>;
  /** Refused at once, whatever they bring. */
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

/** What may be written to an open call. */
export function sinkOf(call: ServerWritableStream<Buffer, Buffer>): StreamSink {
  return {
    send: (message) => {
      if (call.writableNeedDrain) return false;
      call.write(message);
      return true;
    },
    refuse: (error) => {
      call.emit('error', refusalOf(error));
    },
  };
}
