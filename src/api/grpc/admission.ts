import { ServerInterceptingCall, status } from '@grpc/grpc-js';
import type { Metadata, ServerInterceptingCallInterface, ServerInterceptor } from '@grpc/grpc-js';
import type { Credentials } from '../guard/TokenGuard.js';
import { ApiError, busy, stopping } from '../view/ApiError.js';
import type { ServedCalls } from './calls/calls.js';
import type { GrpcApiServer } from './GrpcApiServer.js';
import { isStream, MAX_FORWARDED_REQUEST_BYTES } from './grpcForwarding.js';
import { refusalOf } from './refusals.js';

/** No request needs more than a few ids. */
export const MAX_REQUEST_BYTES = 16 * 1024;
/** Concurrent calls on all connections. */
const MAX_CALLS = 2_000;
const AUTHORIZATION = 'authorization';

/**
 * What a call must pass before it is handled: the bounds on calls, the rate of its address, its token. Counts every call of a
 * known method from its first byte to its end.
 */
export function admission(calls: ServedCalls, server: GrpcApiServer): ServerInterceptor {
  const { accepted, countRequest, limiter, guard } = server;
  const refusalTo = (address: string | undefined): ApiError | undefined => {
    if (server.isClosing) return stopping();
    if (accepted.requests() >= MAX_CALLS && !accepted.makeRoom())
      return busy(`at most ${MAX_CALLS} calls may be in progress at once; retry`);
    return limiter.refusal(address);
  };
  return ({ path }, call) => {
    const { type, cost, isForwarded = false } = calls.get(path) ?? { type: 'bidi', cost: 'cheap' };
    /** It has no time limit. */
    const isLasting = type === 'serverStream' || (isForwarded && isStream(path));
    const over = countRequest(path, { isLasting });
    const refuse = (error: ApiError): void => {
      const refusal = refusalOf(error);
      over(status[refusal.code]);
      call.sendStatus(refusal);
    };
    return new ServerInterceptingCall(call, {
      start: (next) => {
        const peer = call.getConnectionInfo();
        const refusal = refusalTo(peer.remoteAddress);
        if (refusal !== undefined) {
          refuse(refusal);
          return;
        }
        let isOver = (): void => undefined;
        next({
          // A call that was cancelled before this gets neither callback.
          onReceiveMetadata: (metadata, proceed) => {
            const unauthorized = guard.check(metadata, cost, () => takeCredentials(metadata, call));
            if (unauthorized !== undefined) {
              refuse(unauthorized);
              return;
            }
            isOver = accepted.begin(peer, metadata, {
              refuse: isLasting ? undefined : refuse,
              extraBytes: isForwarded ? MAX_FORWARDED_REQUEST_BYTES : 0,
            });
            proceed(metadata);
          },
          onReceiveMessage: (message, proceed) => {
            const isLarge = Buffer.isBuffer(message) && message.length > MAX_REQUEST_BYTES;
            if (isLarge && !isForwarded)
              refuse(new ApiError(413, 'too_large', `the request is larger than ${MAX_REQUEST_BYTES} bytes`));
            else proceed(message);
          },
          // Called at the end of every call, successful ones included.
          onCancel: () => {
            over('CANCELLED');
            isOver();
          },
        });
      },
      sendStatus: (given, next) => {
        // A node may send any number as a status.
        over(given.code in status ? status[given.code] : status[status.UNKNOWN]);
        next(given);
      },
    });
  };
}

function takeCredentials(
  metadata: Metadata,
  call: Pick<ServerInterceptingCallInterface, 'getAuthContext'>,
): Credentials {
  const [authorization] = metadata.get(AUTHORIZATION).map(String);
  metadata.remove(AUTHORIZATION);
  // The library shows only verified ones.
  return { authorization, isKnownClient: call.getAuthContext().sslPeerCertificate !== undefined };
}
