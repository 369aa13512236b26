import type { handleBidiStreamingCall, handleServerStreamingCall, handleUnaryCall } from '@grpc/grpc-js';
import { ApiError } from '../view/ApiError.js';
import { fieldsOf, sinkOf } from './calls.js';
import type { Conversation, StreamCall, UnaryCall } from './calls.js';
import type { GrpcForwarding } from './GrpcForwarding.js';
import type { MessageBuffer } from './MessageBuffer.js';
import { refusalOf } from './refusals.js';
import type { CallRefusal } from './refusals.js';

/** Maximum messages per call, where it may send several. */
const MAX_QUESTIONS = 1_000;

/** Translates what a call threw into how it ends. */
type Explain = (error: unknown) => CallRefusal;

/** What calls need from their server. */
export interface CallHost {
  readonly explain: Explain;
  readonly held: MessageBuffer;
  /** Takes what the index has no answer to. */
  readonly forwarding: GrpcForwarding | undefined;
  /** We have ended a stream of this peer; call the returned function when it is over. */
  readonly expectEnd: (peer: string) => () => void;
  /** Waited for when the server closes. */
  readonly handle: (work: () => Promise<void>) => Promise<void>;
}

export function unaryHandler(
  answer: UnaryCall,
  { explain, held, forwarding, handle }: CallHost,
): handleUnaryCall<Buffer, Buffer> {
  return (call, callback) => {
    void handle(async () => {
      try {
        const message = await answer(fieldsOf(call.request));
        const release = held.hold(message.length);
        if (call.cancelled) release();
        else call.once('cancelled', release);
        callback(null, message);
      } catch (error) {
        if (forwarding?.takes(call.getPath(), error) === true) forwarding.serveRefused(call, callback, error);
        else callback(explain(error));
      }
    });
  };
}

export function streamHandler(
  begin: StreamCall,
  { explain, forwarding, expectEnd, handle }: CallHost,
): handleServerStreamingCall<Buffer, Buffer> {
  return (call) => {
    const refuse = (reason: unknown): void => {
      const refusal = explain(reason);
      if (call.cancelled) return;
      call.once('cancelled', expectEnd(call.getPeer()));
      call.emit('error', refusal);
    };
    void handle(async () => {
      try {
        const end = await begin(fieldsOf(call.request), sinkOf(call, refuse));
        if (call.cancelled) end();
        else call.once('cancelled', end);
      } catch (error) {
        // Only the index decides where its streams may begin; but what it never has, only a node has.
        if (forwarding?.takes(call.getPath(), error) === true && error.reason === 'not_served') {
          forwarding.serveRefusedStream(call);
        } else {
          refuse(error);
        }
      }
    });
  };
}

/** The next message is read once the answer to the one before is taken. */
export function conversationHandler(
  answer: Conversation,
  { explain }: Pick<CallHost, 'explain'>,
): handleBidiStreamingCall<Buffer, Buffer> {
  return (call) => {
    let questions = 0;
    const converse = (request: Buffer): void => {
      try {
        if (questions > MAX_QUESTIONS) {
          throw new ApiError(503, 'busy', `one call may send ${MAX_QUESTIONS} requests; open another one`);
        }
        call.write(answer(request), () => call.resume());
      } catch (error) {
        call.emit('error', explain(error));
      }
    };
    call.on('data', (request: Buffer) => {
      questions += 1;
      call.pause();
      converse(request);
    });
    call.on('end', () => call.end());
  };
}

/** A call that is none of the index's, and is forwarded. */
export function forwardingHandler({ forwarding }: CallHost): handleBidiStreamingCall<Buffer, Buffer> {
  return (call) => {
    forwarding?.serve(call);
  };
}

/**
 * Registered as a call of many messages, so that it is refused before the first is read: a transaction may be larger
 * than any request we read.
 */
export function refusingHandler(error: ApiError): handleBidiStreamingCall<Buffer, Buffer> {
  return (call) => {
    call.emit('error', refusalOf(error));
  };
}
