import { ServerInterceptingCall, status } from '@grpc/grpc-js';
import type { ServerInterceptor } from '@grpc/grpc-js';
import type { AddressLimiter } from '../../limits/AddressLimiter.js';
import type { ApiRequests } from '../../limits/ApiRequests.js';
import { ApiError, stopping } from '../../view/ApiError.js';
import { MAX_FORWARDED_REQUEST_BYTES } from '../forwarding/GrpcForwarding.js';
import { refusalOf } from '../refusals.js';
import type { Peer } from '../../server/Connections.js';
import type { GrpcConnections } from './GrpcConnections.js';
import type { GrpcGuard } from './GrpcGuard.js';

/** No request needs more than a few ids. */
export const MAX_REQUEST_BYTES = 16 * 1024;
/** Concurrent calls on all connections. */
const MAX_CALLS = 2_000;

export interface GrpcAdmissionOptions {
  /** Paths of the calls without a time limit. */
  readonly lasting: ReadonlySet<string>;
  /** Paths of the calls that are forwarded, whose requests may be larger. */
  readonly forwarded: ReadonlySet<string>;
}

export interface GrpcAdmissionDependencies {
  readonly connections: GrpcConnections;
  readonly requests: ApiRequests;
  readonly limiter: AddressLimiter;
  readonly guard: GrpcGuard;
  /** True once the server closes. */
  readonly isClosing: () => boolean;
}

/** What a call must pass before it is handled: the bounds on calls, the rate of its address, its token. */
export class GrpcAdmission {
  readonly #options: GrpcAdmissionOptions;
  readonly #dependencies: GrpcAdmissionDependencies;
  #openCalls = 0;

  constructor(options: GrpcAdmissionOptions, dependencies: GrpcAdmissionDependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
  }

  /** Counts every call of a known method from its first byte to its end, and refuses those that are too many. */
  interceptor(): ServerInterceptor {
    const { lasting, forwarded } = this.#options;
    const { guard, requests } = this.#dependencies;
    return ({ path }, call) => {
      const isLasting = lasting.has(path);
      const isForwarded = forwarded.has(path);
      const over = requests.begin(path, { isLasting });
      const refuse = (error: ApiError): void => {
        const refusal = refusalOf(error);
        over(status[refusal.code]);
        call.sendStatus(refusal);
      };
      return new ServerInterceptingCall(call, {
        start: (next) => {
          const peer = call.getConnectionInfo();
          const refusal = this.#refusalTo(peer);
          if (refusal !== undefined) {
            refuse(refusal);
            return;
          }
          let end = (): void => undefined;
          next({
            // A call that was cancelled before this gets neither callback.
            onReceiveMetadata: (metadata, proceed) => {
              const unauthorized = guard.check(path, metadata, call);
              if (unauthorized !== undefined) {
                refuse(unauthorized);
                return;
              }
              end = this.#begin(peer, {
                refuse: isLasting ? undefined : refuse,
                extraBytes: isForwarded ? MAX_FORWARDED_REQUEST_BYTES : 0,
              });
              proceed(metadata);
            },
            onReceiveMessage: (message, proceed) => {
              const isLarge = Buffer.isBuffer(message) && message.length > MAX_REQUEST_BYTES;
              if (isLarge && !isForwarded) refuse(tooLarge());
              else proceed(message);
            },
            // Called at the end of every call, successful ones included.
            onCancel: () => {
              over('CANCELLED');
              end();
            },
          });
        },
        sendStatus: (given, next) => {
          over(status[given.code]);
          next(given);
        },
      });
    };
  }

  #begin(...call: Parameters<GrpcConnections['begin']>): () => void {
    const end = this.#dependencies.connections.begin(...call);
    this.#openCalls += 1;
    return () => {
      this.#openCalls -= 1;
      end();
    };
  }

  #refusalTo({ remoteAddress }: Peer): ApiError | undefined {
    if (this.#dependencies.isClosing()) return stopping();
    if (this.#openCalls >= MAX_CALLS) {
      return new ApiError(503, 'busy', `at most ${MAX_CALLS} calls may be in progress at once; retry`);
    }
    const { limiter } = this.#dependencies;
    const waitSeconds = limiter.waitSeconds(remoteAddress);
    return waitSeconds === 0 ? undefined : limiter.refusal(waitSeconds);
  }
}

function tooLarge(): ApiError {
  return new ApiError(413, 'too_large', `the request is larger than ${MAX_REQUEST_BYTES} bytes`);
}
