import { createServer } from 'node:net';
import type { Server as TcpServer, Socket } from 'node:net';
import { createServer as createTlsServer, Server as TlsServer } from 'node:tls';
import { Server, ServerCredentials, ServerInterceptingCall, status } from '@grpc/grpc-js';
import type { ServerInterceptor } from '@grpc/grpc-js';
import type { Forwarder } from '../../access/index.js';
import { sleep } from '../../runtime/index.js';
import { StorageError } from '../../storage/index.js';
import { missingOf, renew, tlsOptions } from '../guard/tls.js';
import type { ApiSecrets, TlsIdentity } from '../guard/tls.js';
import type { GuardOptions } from '../guard/TokenGuard.js';
import { AddressLimiter } from '../limits/AddressLimiter.js';
import { ApiRequests } from '../limits/ApiRequests.js';
import type { ApiMetrics } from '../limits/ApiRequests.js';
import type { ForwardMetrics } from '../limits/ForwardingMetrics.js';
import { HeldBytes } from '../limits/HeldBytes.js';
import { ServerLife } from '../server/ServerLife.js';
import type { ServerLifeDependencies } from '../server/ServerLife.js';
import { SocketSet } from '../server/SocketSet.js';
import { ApiError, stopping } from '../view/ApiError.js';
import type { GrpcCalls } from './calls/calls.js';
import { Connections, MAX_CONNECTIONS } from './Connections.js';
import type { ConnectionMetrics, Peer } from './Connections.js';
import { GrpcGuard } from './GrpcGuard.js';
import { GrpcForwarding, isStream, MAX_FORWARDED_REQUEST_BYTES } from './GrpcForwarding.js';
import {
  conversationHandler,
  forwardingHandler,
  refusingHandler,
  streamHandler,
  unaryHandler,
} from './handlers.js';
import type { CallHost } from './handlers.js';
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

/** TLS handshakes at once; a further connection is dropped. */
const MAX_HANDSHAKES = 512;

export interface GrpcServerOptions extends GuardOptions {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  /** Calls per second per address; 0, the default, = unlimited. */
  readonly ratePerSecondPerAddress?: number;
  /** Default: 512. */
  readonly maxConnections?: number;
  /** Total of large responses that callers have not taken yet. Default: 256 MiB. */
  readonly maxHeldBytes?: number;
}

export interface GrpcServerDependencies extends ServerLifeDependencies {
  /** Takes what the index cannot serve. Absent: that is refused. */
  readonly forwarder?: Pick<Forwarder, 'forward'> | undefined;
  /** Absent: nothing is counted. */
  readonly metrics?: (ForwardMetrics & ConnectionMetrics & ApiMetrics) | undefined;
}

/** gRPC on a TCP port of its own, bytes in and bytes out, with bounds on everything a caller sends and leaves untaken. */
export class GrpcServer {
  readonly #grpc: Server;
  readonly #life: ServerLife;
  readonly #connections: Connections;
  readonly #held: HeldBytes;
  readonly #requests: ApiRequests;
  readonly #limiter: AddressLimiter;
  /** Paths of the calls without a time limit. */
  readonly #lasting: ReadonlySet<string>;
  /** Paths of the calls that are forwarded, whose requests may be larger. */
  readonly #forwarded: ReadonlySet<string>;
  readonly #forwarding: GrpcForwarding | undefined;
  readonly #guard: GrpcGuard;
  readonly #tcp: TcpServer;
  #openCalls = 0;

  constructor(
    options: GrpcServerOptions,
    dependencies: GrpcServerDependencies & { readonly calls: GrpcCalls },
  ) {
    const { clock, calls, forwarder, metrics } = dependencies;
    const { host, port, ratePerSecondPerAddress: ratePerSecond = 0 } = options;
    const { maxConnections = MAX_CONNECTIONS } = options;
    this.#connections = new Connections({ maxConnections }, { clock, metrics });
    this.#held = new HeldBytes(options);
    this.#requests = new ApiRequests({ interface: 'grpc' }, { clock, metrics });
    this.#limiter = new AddressLimiter({ ratePerSecond }, { clock });
    const explain = (error: unknown): CallRefusal => this.#explain(error);
    this.#forwarding =
      forwarder && new GrpcForwarding({ ...{ forwarder, clock, explain, metrics }, held: this.#held });
    const forwarded = forwarder === undefined ? [] : Object.keys(calls.refused);
    this.#forwarded = new Set(forwarded);
    this.#lasting = new Set([...Object.keys(calls.streams), ...forwarded.filter(isStream)]);
    this.#guard = new GrpcGuard(options, { calls, forwarded });
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
    // Connections are accepted here and handed on, so that they can be bounded and cut and port errors are clear.
    const injector = this.#grpc.createConnectionInjector(ServerCredentials.createInsecure());
    const tcp = listener(options.secrets?.tls, (socket) => {
      if (this.#connections.add(socket)) injector.injectConnection(socket);
    });
    this.#tcp = tcp;
    this.#boundHandshakes(maxConnections);
    const sockets = new SocketSet({ server: tcp });
    const ends = {
      socket: tcp,
      listen: async () => {
        await new Promise<void>((resolve, reject) => {
          tcp.once('error', reject).listen(port, host, resolve);
        });
        tcp.removeAllListeners('error').on('error', dependencies.fail);
        this.#connections.start();
      },
      stop: () => this.#stop(tcp),
      cut: async () => {
        this.#connections.refuseAll(stopping());
        // Let the final statuses leave first.
        await sleep(clock, 0);
        sockets.destroyAll();
      },
    };
    const flags = { hostFlag: '--api-host', portFlag: '--api-grpc-port' };
    const without = missingOf(options.secrets);
    this.#life = new ServerLife({ host, port, name: 'grpc', ...flags, without }, { ...dependencies, ends });
    this.#register(calls);
  }

  /** Listens. Expected errors: OperatorError (`configuration`) when the address cannot be used. */
  start(): Promise<void> {
    return this.#life.start();
  }

  /** The listening address, with the port resolved. Only between `start()` and `close()`. */
  address(): { readonly host: string; readonly port: number } {
    return this.#life.address();
  }

  /** What changes while it runs. */
  setLimits(limits: { readonly maxConnections: number; readonly ratePerSecondPerAddress: number }): void {
    this.#connections.setLimit(limits.maxConnections);
    this.#boundHandshakes(limits.maxConnections);
    this.#limiter.setRate(limits.ratePerSecondPerAddress);
  }

  /** From now on, these are the tokens and the certificate; a port that speaks plain text goes on doing so. */
  secure(secrets: ApiSecrets): void {
    this.#guard.set(secrets);
    if (this.#tcp instanceof TlsServer && secrets.tls !== undefined) renew(this.#tcp, secrets.tls);
  }

  /** Like `ServerLife.close`. Further calls are refused; streams are their owner's to end. */
  close(): Promise<void> {
    return this.#life.close();
  }

  /** Of TLS; a connection counts once its handshake is behind it. */
  #boundHandshakes(maxConnections: number): void {
    if (this.#tcp instanceof TlsServer) this.#tcp.maxConnections = maxConnections + MAX_HANDSHAKES;
  }

  async #stop(tcp: TcpServer): Promise<void> {
    this.#connections.close();
    this.#forwarding?.close();
    const closed = new Promise<void>((resolve) => tcp.close(() => resolve()));
    this.#connections.destroyWhenEnded();
    // Its callback is of no use: on Node.js 24 it comes while calls are still in progress.
    this.#grpc.tryShutdown(() => undefined);
    await closed;
    this.#grpc.forceShutdown();
  }

  /** Counts every call of a known method from its first byte to its end, and refuses those that are too many. */
  #admission(): ServerInterceptor {
    return ({ path }, call) => {
      const isLasting = this.#lasting.has(path);
      const isForwarded = this.#forwarded.has(path);
      const over = this.#requests.begin(path, { isLasting });
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
              const unauthorized = this.#guard.check(path, metadata, call);
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

  #begin(...call: Parameters<Connections['begin']>): () => void {
    const end = this.#connections.begin(...call);
    this.#openCalls += 1;
    return () => {
      this.#openCalls -= 1;
      end();
    };
  }

  #refusalTo({ remoteAddress }: Peer): ApiError | undefined {
    if (this.#life.isClosing) return stopping();
    if (this.#openCalls >= MAX_CALLS) {
      return new ApiError(503, 'busy', `at most ${MAX_CALLS} calls may be in progress at once; retry`);
    }
    const waitSeconds = this.#limiter.waitSeconds(remoteAddress);
    return waitSeconds === 0 ? undefined : this.#limiter.refusal(waitSeconds);
  }

  #register({ unary, streams, conversations, refused }: GrpcCalls): void {
    const host: CallHost = {
      explain: (error) => this.#explain(error),
      held: this.#held,
      forwardingFor: (metadata) => (this.#guard.mayForward(metadata) ? this.#forwarding : undefined),
      expectEnd: (peer) => this.#connections.expectEnd(peer),
      run: (work) => this.#life.run(work),
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
      const handler =
        this.#forwarding === undefined ? refusingHandler(error) : forwardingHandler(this.#forwarding);
      this.#grpc.register(path, handler, asItIs, asItIs, 'bidi');
    }
  }

  #explain(error: unknown): CallRefusal {
    const refusal = refusalOf(this.#life.explain(error));
    const isUnreadable = error instanceof StorageError && error.kind !== 'corrupt';
    return isUnreadable ? { ...refusal, code: status.UNAVAILABLE } : refusal;
  }
}

function tooLarge(): ApiError {
  return new ApiError(413, 'too_large', `the request is larger than ${MAX_REQUEST_BYTES} bytes`);
}

/** Calls back with each connection that can carry calls, in the clear or with its TLS handshake behind it. */
function listener(tls: TlsIdentity | undefined, onConnection: (socket: Socket) => void): TcpServer {
  if (tls === undefined) return createServer({ noDelay: true }, onConnection);
  const options = { ...tlsOptions(tls), noDelay: true, ALPNProtocols: ['h2'] };
  const server = createTlsServer(options, onConnection);
  // A handshake that failed concerns nobody but its caller.
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  return server;
}

function asItIs(message: Buffer): Buffer {
  return message;
}
