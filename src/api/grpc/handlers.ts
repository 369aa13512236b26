import type { handleBidiStreamingCall, handleServerStreamingCall, handleUnaryCall } from '@grpc/grpc-js';
import { ApiError } from '../view/ApiError.js';
import { turnOf } from '../share/ReadGovernor.js';
import type { ReadGovernor } from '../share/ReadGovernor.js';
import { fieldsOf, sinkOf } from './calls.js';
import type { Conversation, StreamCall, UnaryAnswer, UnaryCall } from './calls.js';
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
  /** Holds calls to the readers' share of the event loop; `undefined` for those that are served at once. */
  readonly governor: ReadGovernor | undefined;
  /** Takes what the index has no answer to. */
  readonly forwarding: GrpcForwarding | undefined;
  /** We have ended a stream of this peer; call the returned function when it is over. */
  readonly expectEnd: (peer: string) => () => void;
  /** Waited for when the server closes. */
  readonly handle: (work: () => Promise<void>) => Promise<void>;
}

export function unaryHandler(
  answer: UnaryCall,
  { explain, held, governor, forwarding, handle }: CallHost,
): handleUnaryCall<Buffer, Buffer> {
  return (call, callback) => {
    void handle(async () => {
      try {
        const waiting = governor?.admit('grpc');
        if (waiting !== undefined && !(await turnOf(waiting, call, 'cancelled'))) return;
        const message = await built(await answer(fieldsOf(call.request)), governor);
        governor?.sends(message.length);
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
  { explain, governor, forwarding, expectEnd, handle }: CallHost,
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
        if (!(await mayBegin(call, governor))) return;
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

/** False: it has left while it waited for its turn. Expected errors: as `Waiting.turn`, and ApiError (busy). */
async function mayBegin(
  call: Parameters<typeof turnOf>[1],
  governor: ReadGovernor | undefined,
): Promise<boolean> {
  const waiting = governor?.admit('grpc');
  return waiting === undefined || turnOf(waiting, call, 'cancelled');
}

function built(answer: UnaryAnswer, governor: ReadGovernor | undefined): Buffer | Promise<Buffer> {
  if (Buffer.isBuffer(answer)) return answer;
  return governor === undefined ? answer() : governor.work(answer);
}

/** The next message is read once the answer to the one before is taken. */
export function conversationHandler(
  answer: Conversation,
  { explain, governor }: Pick<CallHost, 'explain' | 'governor'>,
): handleBidiStreamingCall<Buffer, Buffer> {
  return (call) => {
    let questions = 0;
    let last = Promise.resolve();
    const converse = async (request: Buffer): Promise<void> => {
      try {
        if (!(await mayBegin(call, governor))) return;
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
      last = converse(request);
    });
    // The caller may have said all it has to say while its last question waits.
    call.on('end', () => void last.then(() => call.end()));
  };
}

/** A call that is none of the index's, and is forwarded. */
export function forwardingHandler({
  explain,
  governor,
  forwarding,
  handle,
}: CallHost): handleBidiStreamingCall<Buffer, Buffer> {
  return (call) => {
    void handle(async () => {
      try {
        if (await mayBegin(call, governor)) forwarding?.serve(call);
      } catch (error) {
        call.emit('error', explain(error));
      }
    });
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
