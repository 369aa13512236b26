import { createServer } from 'node:net';
import type { Server as TcpServer } from 'node:net';
import { Server, ServerCredentials, ServerInterceptingCall, status } from '@grpc/grpc-js';
import type { ServerInterceptor } from '@grpc/grpc-js';
import type { Forwarder } from '../../access/index.js';
import type { Logger } from '../../observability/index.js';
import { sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { StorageError } from '../../storage/index.js';
import { AddressLimiter } from '../limits/AddressLimiter.js';
import { ApiRequests } from '../limits/ApiRequests.js';
import type { ApiMetrics } from '../limits/ApiRequests.js';
import { ApiError, stopping, storageRefusal } from '../view/ApiError.js';
import type { ForwardMetrics } from '../limits/ForwardingMetrics.js';
import { listenError, warnWhenExposed } from '../http/refusals.js';
import { InFlightRequests } from '../limits/InFlightRequests.js';
import type { GrpcCalls } from './calls.js';
import { Connections } from './Connections.js';
import type { ConnectionMetrics, Peer } from './Connections.js';
import { GrpcForwarding, isStream, MAX_FORWARDED_REQUEST_BYTES } from './GrpcForwarding.js';
import {
  conversationHandler,
  forwardingHandler,
  refusingHandler,
  streamHandler,
  unaryHandler,
} from './handlers.js';
import type { CallHost } from './handlers.js';
import { MessageBuffer } from './MessageBuffer.js';
import { refusalOf } from './refusals.js';
import type { CallRefusal } from './refusals.js';

/** No request needs more than a few ids. */
const MAX_REQUEST_BYTES = 16 * 1024;
/** Concurrent calls per connection; further ones wait with the caller. */
const MAX_STREAMS_PER_CONNECTION = 100;
/** Concurrent calls on all connections. */
const MAX_CALLS = 2_000;
/** For a connection without a call; clients reconnect by themselves. */
const MAX_CONNECTION_IDLE_MS = 300_000;
/** How often a caller is pinged, and how long it has to respond. */
const KEEPALIVE_MS = 60_000;
const KEEPALIVE_TIMEOUT_MS = 20_000;

export interface GrpcServerOptions {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  /** Calls per second per address; 0, the default, = unlimited. */
  readonly ratePerSecondPerAddress?: number;
  /** Total of large responses that callers have not taken yet. Default: 256 MiB. */
  readonly maxHeldBytes?: number;
}

export interface GrpcServerDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called with every error that is a bug, after the caller got INTERNAL: the owner stops the process. */
  readonly fail: (error: unknown) => void;
  /** Takes what the index cannot answer. Without, that is refused. */
  readonly forwarder?: Pick<Forwarder, 'forward'> | undefined;
  /** Absent: nothing is counted. */
  readonly metrics?: (ForwardMetrics & ConnectionMetrics & ApiMetrics) | undefined;
}

/**
 * gRPC over a TCP port of its own, bytes in and bytes out: bounds on everything a caller sends and leaves untaken, one
 * translation of errors, a clear refusal when the address cannot be used, and a bounded shutdown (`InFlightRequests`).
 */
export class GrpcServer {
  readonly #options: GrpcServerOptions;
  readonly #dependencies: GrpcServerDependencies;
  readonly #grpc: Server;
  readonly #tcp: TcpServer;
  readonly #connections: Connections;
  readonly #held: MessageBuffer;
  readonly #requests: ApiRequests;
  readonly #limiter: AddressLimiter | undefined;
  /** Paths of the calls that last as long as their callers like. */
  readonly #lasting: ReadonlySet<string>;
  /** Paths of forwarded calls that the index does not serve. */
  readonly #forwarded: ReadonlySet<string>;
  readonly #forwarding: GrpcForwarding | undefined;
  /** Calls not answered yet, and streams not started yet. */
  readonly #underWay: InFlightRequests;
  /** The last damage logged, so that a repeated request does not fill the log. */
  #damageLogged = '';
  #callsUnderWay = 0;
  #closing: Promise<void> | undefined;
  /** Errors after close are expected. */
  #closed = false;

  constructor(
    options: GrpcServerOptions,
    dependencies: GrpcServerDependencies & { readonly calls: GrpcCalls },
  ) {
    const { clock, calls, forwarder, metrics } = dependencies;
    const { ratePerSecondPerAddress: ratePerSecond = 0 } = options;
    this.#options = options;
    this.#dependencies = dependencies;
    this.#connections = new Connections({ clock, metrics });
    this.#held = new MessageBuffer(options);
    this.#requests = new ApiRequests({ interface: 'grpc' }, { clock, metrics });
    this.#underWay = new InFlightRequests({ clock });
    this.#limiter = ratePerSecond > 0 ? new AddressLimiter({ ratePerSecond }, { clock }) : undefined;
    const explain = (error: unknown): CallRefusal => this.#explain(error);
    this.#forwarding =
      forwarder && new GrpcForwarding({ ...{ forwarder, clock, explain, metrics }, held: this.#held });
    const forwarded = forwarder === undefined ? [] : Object.keys(calls.refused);
    this.#forwarded = new Set(forwarded);
    this.#lasting = new Set([...Object.keys(calls.streams), ...forwarded.filter(isStream)]);
    this.#grpc = new Server({
      'grpc.max_receive_message_length':
        forwarder === undefined ? MAX_REQUEST_BYTES : MAX_FORWARDED_REQUEST_BYTES,
      'grpc.max_concurrent_streams': MAX_STREAMS_PER_CONNECTION,
      'grpc.max_connection_idle_ms': MAX_CONNECTION_IDLE_MS,
      'grpc.keepalive_time_ms': KEEPALIVE_MS,
      'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
      'grpc.enable_channelz': 0,
      interceptors: [this.#admission()],
    });
    this.#register(calls);
    // Connections are accepted here and handed on, so that they can be bounded and cut and port errors are clear.
    const injector = this.#grpc.createConnectionInjector(ServerCredentials.createInsecure());
    this.#tcp = createServer({ noDelay: true }, (socket) => {
      if (this.#connections.add(socket)) injector.injectConnection(socket);
    });
  }

  /** Listens. Expected errors: OperatorError (`configuration`) when the address cannot be used. */
  async start(): Promise<void> {
    const { host, port } = this.#options;
    await new Promise<void>((resolve, reject) => {
      this.#tcp.once('error', (error) => reject(this.#listenError(error)));
      this.#tcp.listen(port, host, resolve);
    });
    this.#tcp.removeAllListeners('error').on('error', this.#dependencies.fail);
    this.#connections.start();
    warnWhenExposed(this.#dependencies.logger, 'grpc', this.address());
  }

  /** The listening address, with the port resolved. Only between `start()` and `close()`. */
  address(): { readonly host: string; readonly port: number } {
    const address = this.#tcp.address();
    if (address === null || typeof address === 'string') throw new Error('the server does not listen');
    return { host: this.#options.host, port: address.port };
  }

  /**
   * Stops listening and refuses further calls; those under way get CLOSE_GRACE_MS (of `UnderWay`), and what they read is waited for as
   * long, also where the caller has hung up. Streams are their owner's to end. Idempotent.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#connections.close();
    this.#forwarding?.close();
    await this.#underWay.end({
      stop: () => {
        const closed = new Promise<void>((resolve) => this.#tcp.close(() => resolve()));
        this.#grpc.tryShutdown(() => this.#connections.destroyAll());
        return closed;
      },
      cut: async () => {
        this.#connections.refuseAll(stopping());
        // Let the final statuses leave first.
        await sleep(this.#dependencies.clock, 0);
        this.#connections.destroyAll();
      },
    });
    this.#grpc.forceShutdown();
    this.#closed = true;
  }

  #listenError(error: unknown): Error {
    const explained = listenError(error, { ...this.#options, settings: 'api', portFlag: '--api-grpc-port' });
    return explained instanceof Error ? explained : new Error('cannot listen', { cause: explained });
  }

  /**
   * Counts every call from its first byte to its end, and refuses those that are too many. Calls of methods that nothing here
   * has do not come this far.
   */
  #admission(): ServerInterceptor {
    return (method, call) => {
      const over = this.#requests.begin(method.path, { isLasting: this.#lasting.has(method.path) });
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
            // A call that was cancelled before it came here is told neither.
            onReceiveMetadata: (metadata, proceed) => {
              end = this.#begin(peer, {
                refuse: this.#lasting.has(method.path) ? undefined : refuse,
                extraBytes: this.#forwarded.has(method.path) ? MAX_FORWARDED_REQUEST_BYTES : 0,
              });
              proceed(metadata);
            },
            onReceiveMessage: (message, proceed) => {
              const isLarge = Buffer.isBuffer(message) && message.length > MAX_REQUEST_BYTES;
              if (isLarge && !this.#forwarded.has(method.path)) refuse(tooLarge());
              else proceed(message);
            },
            // Called at the end of every call, answered ones included.
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

  #begin(...call: Parameters<Connections['begin']>): () => void {
    const end = this.#connections.begin(...call);
    this.#callsUnderWay += 1;
    return () => {
      this.#callsUnderWay -= 1;
      end();
    };
  }

  #refusalTo({ remoteAddress = '' }: Peer): ApiError | undefined {
    if (this.#closing !== undefined) return stopping();
    if (this.#callsUnderWay >= MAX_CALLS) {
      return new ApiError(503, 'busy', `at most ${MAX_CALLS} calls may be under way at once; ask again`);
    }
    const waitSeconds = this.#limiter?.waitSeconds(remoteAddress) ?? 0;
    if (waitSeconds === 0) return undefined;
    const { ratePerSecondPerAddress = 0 } = this.#options;
    const message = `at most ${ratePerSecondPerAddress} requests per second are answered to one address; ask again in ${waitSeconds} s`;
    return new ApiError(429, 'rate_limited', message);
  }

  #register({ unary, streams, conversations, refused }: GrpcCalls): void {
    const explain = (error: unknown): CallRefusal => this.#explain(error);
    const host: CallHost = {
      ...{ explain, held: this.#held, forwarding: this.#forwarding },
      expectEnd: (peer) => this.#connections.expectEnd(peer),
      handle: (work) => this.#underWay.run(work),
    };
    for (const [path, call] of Object.entries(unary)) {
      this.#grpc.register(path, unaryHandler(call, host), asItIs, asItIs, 'unary');
    }
    for (const [path, call] of Object.entries(streams)) {
      this.#grpc.register(path, streamHandler(call, host), asItIs, asItIs, 'serverStream');
    }
    for (const [path, conversation] of Object.entries(conversations)) {
      this.#grpc.register(path, conversationHandler(conversation, host), asItIs, asItIs, 'bidi');
    }
    for (const [path, error] of Object.entries(refused)) {
      const handler = this.#forwarding === undefined ? refusingHandler(error) : forwardingHandler(host);
      this.#grpc.register(path, handler, asItIs, asItIs, 'bidi');
    }
  }

  /** How a call that threw ends. */
  #explain(error: unknown): CallRefusal {
    if (error instanceof ApiError) return refusalOf(error);
    if (error instanceof StorageError) {
      if (this.#damageLogged !== error.message) {
        this.#damageLogged = error.message;
        this.#dependencies.logger.error({ kind: error.kind, error }, 'a read failed');
      }
      const refusal = refusalOf(storageRefusal(error));
      return error.kind === 'corrupt' ? refusal : { ...refusal, code: status.UNAVAILABLE };
    }
    if (!this.#closed) this.#dependencies.fail(error);
    return refusalOf(new ApiError(500, 'internal', 'internal server error'));
  }
}

function tooLarge(): ApiError {
  return new ApiError(413, 'too_large', `the request is larger than ${MAX_REQUEST_BYTES} bytes`);
}

function asItIs(message: Buffer): Buffer {
  return message;
}
