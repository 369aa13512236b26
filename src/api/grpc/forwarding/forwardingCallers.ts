import { status } from '@grpc/grpc-js';
import type {
  Metadata,
  sendUnaryData,
  ServerDuplexStream,
  ServerUnaryCall,
  ServerWritableStream,
} from '@grpc/grpc-js';
import { AbortError } from '../../../runtime/index.js';
import type { Clock } from '../../../runtime/index.js';
import { ApiError } from '../../view/ApiError.js';
import { refusalOf } from '../refusals.js';
import type { CallRefusal } from '../refusals.js';

/** For a forwarded request to arrive completely, as over HTTP. */
const REQUEST_TIMEOUT_MS = 15_000;
/** These concern one connection or one encoding, ours or the node's. */
const NOT_PASSED_ON = [
  ...['user-agent', 'content-type', 'content-length', 'te', 'trailer', 'accept-encoding', 'host', 'date'],
  ...['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade', 'server'],
  ...['grpc-timeout', 'grpc-encoding', 'grpc-accept-encoding', 'grpc-status', 'grpc-message'],
];
/** In the metadata of every response that came from a node. */
const VIA = '2.0 flow-collection-indexer';

/** The caller of a forwarded call, unary or streaming. */
export interface ForwardedCaller {
  readonly path: string;
  readonly metadata: Metadata;
  /** Milliseconds since the epoch, or Infinity. */
  readonly deadlineMs: number;
  /** Aborts once the call is over, however it ended. */
  readonly signal: AbortSignal;
  sendMetadata(metadata: Metadata): void;
  /** `onTaken` is called when the message has left, but not if the call is over first. */
  send(message: Buffer, onTaken: () => void): void;
  end(end: CallRefusal): void;
}

type AnyCall = Pick<
  ServerDuplexStream<Buffer, Buffer>,
  'getPath' | 'getDeadline' | 'metadata' | 'sendMetadata' | 'cancelled'
> & { once(event: 'cancelled', listener: () => void): unknown };

/** For a call that may have several response messages. */
export function streamCaller(
  call: ServerDuplexStream<Buffer, Buffer> | ServerWritableStream<Buffer, Buffer>,
): ForwardedCaller {
  return {
    ...callerOf(call),
    send: (message, onTaken) => {
      call.write(message, (error: unknown) => {
        // A failed write ends the call, so no next message is needed.
        if (error === null || error === undefined) onTaken();
      });
    },
    end: (end) => {
      if (end.code === status.OK) call.end(end.metadata);
      else call.emit('error', end);
    },
  };
}

/** For a call whose single request has been read. The response is held until its final status is known. */
export function unaryCaller(
  call: ServerUnaryCall<Buffer, Buffer>,
  callback: sendUnaryData<Buffer>,
): ForwardedCaller {
  let response: Buffer | undefined;
  return {
    ...callerOf(call),
    send: (message, onTaken) => {
      response = message;
      onTaken();
    },
    end: (end) => {
      if (end.code === status.OK && response !== undefined) callback(null, response, end.metadata);
      else callback(end);
    },
  };
}

function callerOf(call: AnyCall) {
  const over = new AbortController();
  if (call.cancelled) over.abort(new AbortError());
  else call.once('cancelled', () => over.abort(new AbortError()));
  return {
    path: call.getPath(),
    metadata: passedOn(call.metadata),
    deadlineMs: Number(call.getDeadline()),
    signal: over.signal,
    sendMetadata: (metadata: Metadata): void => call.sendMetadata(metadata),
  };
}

/** Metadata without what concerns one connection only. */
export function passedOn(metadata: Metadata): Metadata {
  const copy = metadata.clone();
  for (const key of NOT_PASSED_ON) copy.remove(key);
  return copy;
}

/** A node's metadata, marked as having come through here. */
export function marked(metadata: Metadata): Metadata {
  const copy = passedOn(metadata);
  copy.add('via', VIA);
  return copy;
}

/** The single request of a call. Expected errors: ApiError (bad_request, overdue); AbortError when the call is over first. */
export function readRequest(
  call: ServerDuplexStream<Buffer, Buffer>,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(new AbortError());
      return;
    }
    const fail = (error: Error): void => {
      timer.cancel();
      reject(error);
    };
    const timer = clock.setTimer(REQUEST_TIMEOUT_MS, () => {
      const seconds = REQUEST_TIMEOUT_MS / 1_000;
      reject(new ApiError(408, 'overdue', `the request did not arrive within ${seconds} s`));
    });
    signal.addEventListener('abort', () => fail(new AbortError()), { once: true });
    let messages = 0;
    call.on('data', (message: Buffer) => {
      messages += 1;
      timer.cancel();
      resolve(message);
      if (messages > 1) call.emit('error', refusalOf(notOne('more than one message')));
    });
    call.on('end', () => fail(notOne('no message')));
  });
}

function notOne(what: string): ApiError {
  return new ApiError(400, 'bad_request', `the call sent ${what}; it takes exactly one`);
}
