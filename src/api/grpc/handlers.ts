import type { handleServerStreamingCall, handleUnaryCall, Server } from '@grpc/grpc-js';
import { whenTaken } from '../feed/following.js';
import type { Held } from '../limits/heldBytes.js';
import { fieldsOf, type ServedCalls, type StreamCall, type UnaryCall } from './calls/calls.js';
import type { GrpcApiServer } from './GrpcApiServer.js';

/** Has the library answer these calls, bytes in and bytes out. */
export function register(grpc: Server, calls: ServedCalls, server: GrpcApiServer): void {
  for (const [path, call] of calls) {
    if (call.kind === 'unary')
      grpc.register(path, unaryHandler(call.respond, server), asItIs, asItIs, 'unary');
    else if (call.kind === 'stream')
      grpc.register(path, streamHandler(call.begin, server), asItIs, asItIs, 'serverStream');
    else grpc.register(path, call.answer, asItIs, asItIs, 'bidi');
  }
}

function asItIs(message: Buffer): Buffer {
  return message;
}

function unaryHandler(respond: UnaryCall, server: GrpcApiServer): handleUnaryCall<Buffer, Buffer> {
  return (call, callback) => {
    void server.run(async () => {
      try {
        const message = await respond(fieldsOf(call.request));
        const holding = server.hold(message.length);
        if (call.cancelled) holding?.release();
        else if (holding !== undefined) call.once('cancelled', holding.release);
        callback(null, message);
      } catch (error) {
        const forwarding = server.forwardingFor(call.metadata);
        if (forwarding?.takes(call.getPath(), error) === true) forwarding.serveRefused(call, callback, error);
        else callback(server.refusalFor(error));
      }
    });
  };
}

function streamHandler(begin: StreamCall, server: GrpcApiServer): handleServerStreamingCall<Buffer, Buffer> {
  return (call) => {
    let holding: Held | undefined;
    call.once('cancelled', () => holding?.release());
    const sink = {
      send: (message: Buffer, onTaken: () => void): void => {
        // Nobody would be told that it was taken.
        if (call.cancelled) return;
        holding = server.hold(message.length);
        const taken = whenTaken(() => {
          holding?.release();
          onTaken();
        });
        call.write(message, taken);
      },
      end: (reason?: unknown): void => {
        if (reason === undefined) call.end();
        else server.endStream(call, server.refusalFor(reason));
      },
    };
    void server.run(async () => {
      try {
        const end = await begin(fieldsOf(call.request), sink);
        if (call.cancelled) end();
        else call.once('cancelled', end);
      } catch (error) {
        const forwarding = server.forwardingFor(call.metadata);
        // Only the index decides where its streams may begin; but some streams only a node has.
        if (forwarding?.takes(call.getPath(), error) === true && error.reason === 'not_served') {
          forwarding.serveRefusedStream(call);
        } else {
          sink.end(error);
        }
      }
    });
  };
}
