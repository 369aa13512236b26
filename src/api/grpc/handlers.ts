import type {
  handleBidiStreamingCall,
  handleServerStreamingCall,
  handleUnaryCall,
  Metadata,
} from '@grpc/grpc-js';
import type { Held, HeldBytes } from '../limits/HeldBytes.js';
import { ApiError } from '../view/ApiError.js';
import { fieldsOf } from './calls/calls.js';
import type { Conversation, StreamCall, UnaryCall } from './calls/calls.js';
import type { GrpcForwarding } from './GrpcForwarding.js';
import { refusalOf } from './refusals.js';
import type { CallRefusal } from './refusals.js';

/** Maximum messages per call, where it may send several. */
const MAX_MESSAGES = 1_000;

/** What calls need from their server. */
export interface CallHost {
  /** The status for an error that a call threw. */
  readonly explain: (error: unknown) => CallRefusal;
  readonly held: HeldBytes;
  /** The forwarding for a call with these metadata, if it may use it. */
  readonly forwardingFor: (metadata: Metadata) => GrpcForwarding | undefined;
  /** We have ended a stream of this peer; call the returned function when it is over. */
  readonly expectEnd: (peer: string) => () => void;
  /** Runs work that the server waits for when it closes. */
  readonly run: (work: () => Promise<void>) => Promise<void>;
}

export function unaryHandler(
  respond: UnaryCall,
  { explain, held, forwardingFor, run }: CallHost,
): handleUnaryCall<Buffer, Buffer> {
  return (call, callback) => {
    void run(async () => {
      try {
        const message = await respond(fieldsOf(call.request));
        const holding = held.hold(message.length);
        if (call.cancelled) holding?.release();
        else if (holding !== undefined) call.once('cancelled', holding.release);
        callback(null, message);
      } catch (error) {
        const forwarding = forwardingFor(call.metadata);
        if (forwarding?.takes(call.getPath(), error) === true) forwarding.serveRefused(call, callback, error);
        else callback(explain(error));
      }
    });
  };
}

export function streamHandler(
  begin: StreamCall,
  { explain, held, forwardingFor, expectEnd, run }: CallHost,
): handleServerStreamingCall<Buffer, Buffer> {
  return (call) => {
    let holding: Held | undefined;
    call.once('cancelled', () => holding?.release());
    const sink = {
      send: (message: Buffer) => {
        if (call.writableNeedDrain) return false;
        call.write(message);
        return true;
      },
      write: (message: Buffer, onTaken: () => void) => {
        // Nobody would be told that it was taken.
        if (call.cancelled) return;
        holding = held.hold(message.length);
        call.write(message, (error: unknown) => {
          holding?.release();
          if (error === null || error === undefined) onTaken();
        });
      },
      finish: () => call.end(),
      refuse: (reason: unknown) => {
        const refusal = explain(reason);
        if (call.cancelled) return;
        call.once('cancelled', expectEnd(call.getPeer()));
        call.emit('error', refusal);
      },
    };
    void run(async () => {
      try {
        const end = await begin(fieldsOf(call.request), sink);
        if (call.cancelled) end();
        else call.once('cancelled', end);
      } catch (error) {
        const forwarding = forwardingFor(call.metadata);
        // Only the index decides where its streams may begin; but some streams only a node has.
        if (forwarding?.takes(call.getPath(), error) === true && error.reason === 'not_served') {
          forwarding.serveRefusedStream(call);
        } else {
          sink.refuse(error);
        }
      }
    });
  };
}

/** Reads the next message once the response to the one before is taken. */
export function conversationHandler(
  respond: Conversation,
  { explain }: Pick<CallHost, 'explain'>,
): handleBidiStreamingCall<Buffer, Buffer> {
  return (call) => {
    let messages = 0;
    call.on('data', (request: Buffer) => {
      messages += 1;
      call.pause();
      try {
        if (messages > MAX_MESSAGES) {
          throw new ApiError(503, 'busy', `one call may send ${MAX_MESSAGES} requests; open another one`);
        }
        call.write(respond(request), () => call.resume());
      } catch (error) {
        call.emit('error', explain(error));
      }
    });
    call.on('end', () => call.end());
  };
}

/**
 * For a call that the index does not serve: it is forwarded, or refused. Registered as a call of many messages, so that it is
 * refused before the first is read: a transaction may be larger than any request we read.
 */
export function unservedHandler(
  refusal: ApiError,
  forwarding: GrpcForwarding | undefined,
): handleBidiStreamingCall<Buffer, Buffer> {
  return (call) => {
    if (forwarding === undefined) call.emit('error', refusalOf(refusal));
    else forwarding.serve(call);
  };
}
