import { createServer } from 'node:net';
import type { Server as TcpServer, Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import type { Forwarder } from '../../access/index.js';
import type { ConnectionMetrics } from '../../observability/index.js';
import { sleep } from '../../runtime/index.js';
import { tlsOptions } from '../guard/tls.js';
import type { ApiSecrets, TlsIdentity } from '../guard/tls.js';
import type { GuardOptions } from '../guard/TokenGuard.js';
import { AddressLimiter } from '../limits/AddressLimiter.js';
import { ApiRequests } from '../limits/ApiRequests.js';
import type { ApiMetrics } from '../limits/ApiRequests.js';
import type { ForwardMetrics } from '../limits/ForwardingMetrics.js';
import { HeldBytes } from '../limits/HeldBytes.js';
import { ServerLifecycle } from '../server/ServerLifecycle.js';
import type { ServerLifecycleDependencies } from '../server/ServerLifecycle.js';
import { stopping } from '../view/ApiError.js';
import type { GrpcCalls } from './calls/calls.js';
import { GrpcAdmission, MAX_REQUEST_BYTES } from './admission/GrpcAdmission.js';
import { GrpcConnections } from './admission/GrpcConnections.js';
import { GrpcGuard } from './admission/GrpcGuard.js';
import { GrpcForwarding, isStream, MAX_FORWARDED_REQUEST_BYTES } from './forwarding/GrpcForwarding.js';
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

/** Concurrent calls per connection; further ones wait with the caller. */
const MAX_STREAMS_PER_CONNECTION = 100;
/** For a connection without a call; clients reconnect by themselves. */
const MAX_CONNECTION_IDLE_MS = 300_000;
/** How often a caller is pinged: sooner than balancers, which wait for 60 s, drop a quiet connection. And how long it has to respond. */
const KEEPALIVE_MS = 30_000;
const KEEPALIVE_TIMEOUT_MS = 20_000;

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

export interface GrpcServerDependencies extends ServerLifecycleDependencies {
  /** Serves calls that the index cannot. Absent: they are refused. */
  readonly forwarder?: Pick<Forwarder, 'forward'> | undefined;
  /** Absent: nothing is counted. */
  readonly metrics?: (ForwardMetrics & ConnectionMetrics & ApiMetrics) | undefined;
}

/** gRPC on its own TCP port, bytes in and bytes out, with bounds on everything a caller sends and does not take. */
export class GrpcServer {
  readonly #grpc: Server;
  readonly #lifecycle: ServerLifecycle;
  readonly #connections: GrpcConnections;
  readonly #held: HeldBytes;
  readonly #limiter: AddressLimiter;
  readonly #forwarding: GrpcForwarding | undefined;
  readonly #guard: GrpcGuard;

  constructor(
    options: GrpcServerOptions,
    dependencies: GrpcServerDependencies & { readonly calls: GrpcCalls },
  ) {
    const { clock, calls, forwarder, metrics } = dependencies;
    const { host, port, ratePerSecondPerAddress: ratePerSecond = 0, maxConnections, secrets } = options;
    const server = tcpListener(secrets?.tls);
    this.#connections = new GrpcConnections({ server, name: 'grpc', maxConnections }, dependencies);
    this.#held = new HeldBytes(options);
    this.#limiter = new AddressLimiter({ ratePerSecond }, { clock });
    const explain = (error: unknown): CallRefusal => this.#explain(error);
    this.#forwarding =
      forwarder && new GrpcForwarding({ forwarder, clock, explain, metrics, held: this.#held });
    const forwarded = forwarder === undefined ? [] : Object.keys(calls.refused);
    this.#guard = new GrpcGuard(options, { calls, forwarded });
    const admission = new GrpcAdmission(
      {
        lasting: new Set([...Object.keys(calls.streams), ...forwarded.filter(isStream)]),
        forwarded: new Set(forwarded),
      },
      {
        requests: new ApiRequests({ interface: 'grpc' }, { clock, metrics }),
        connections: this.#connections,
        limiter: this.#limiter,
        guard: this.#guard,
        isClosing: () => this.#lifecycle.isClosing,
      },
    );
    this.#grpc = new Server({
      'grpc.max_receive_message_length':
        forwarder === undefined ? MAX_REQUEST_BYTES : MAX_FORWARDED_REQUEST_BYTES,
      'grpc.max_concurrent_streams': MAX_STREAMS_PER_CONNECTION,
      'grpc.max_connection_idle_ms': MAX_CONNECTION_IDLE_MS,
      'grpc.keepalive_time_ms': KEEPALIVE_MS,
      'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
      'grpc.enable_channelz': 0,
      interceptors: [admission.interceptor()],
    });
    // Connections are accepted here and handed on, so that they can be bounded and cut and port errors are clear.
    const injector = this.#grpc.createConnectionInjector(ServerCredentials.createInsecure());
    server.on(secrets?.tls === undefined ? 'connection' : 'secureConnection', (socket: Socket) => {
      if (!socket.destroyed) injector.injectConnection(socket);
    });
    const hooks = {
      socket: server,
      connections: this.#connections,
      listen: async () => {
        await new Promise<void>((resolve, reject) => {
          server.once('error', reject).listen(port, host, resolve);
        });
        server.removeAllListeners('error').on('error', dependencies.fail);
      },
      stop: () => this.#stop(server),
      cut: async () => {
        this.#connections.refuseAll(stopping());
        // Let the final statuses leave first.
        await sleep(clock, 0);
      },
    };
    const flags = { hostFlag: '--api-host', portFlag: '--api-grpc-port' };
    this.#lifecycle = new ServerLifecycle(
      { host, port, name: 'grpc', ...flags, secrets },
      { ...dependencies, hooks },
    );
    this.#register(calls);
  }

  /** Listens. Expected errors: OperatorError (`configuration`) when the address cannot be used. */
  start(): Promise<void> {
    return this.#lifecycle.start();
  }

  /** The listening address, with the port resolved. Only between `start()` and `close()`. */
  address(): { readonly host: string; readonly port: number } {
    return this.#lifecycle.address();
  }

  /** Open connections. */
  get connections(): number {
    return this.#connections.size;
  }

  /** Changes limits while it runs. */
  setLimits(limits: { readonly maxConnections: number; readonly ratePerSecondPerAddress: number }): void {
    this.#connections.setLimit(limits.maxConnections);
    this.#limiter.setRate(limits.ratePerSecondPerAddress);
  }

  /** Replaces tokens and certificate; a plain-text port stays plain text. */
  secure(secrets: ApiSecrets): void {
    this.#guard.set(secrets);
    this.#lifecycle.renew(secrets);
  }

  /** Like `ServerLifecycle.close`. Further calls are refused; streams are their owner's to end. */
  close(): Promise<void> {
    return this.#lifecycle.close();
  }

  async #stop(server: TcpServer): Promise<void> {
    this.#forwarding?.close();
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    this.#connections.destroyWhenEnded();
    // Its callback is useless: on Node.js 24 it comes while calls are still in progress.
    this.#grpc.tryShutdown(() => undefined);
    await closed;
    this.#grpc.forceShutdown();
  }

  #register({ unary, streams, conversations, refused }: GrpcCalls): void {
    const host: CallHost = {
      explain: (error) => this.#explain(error),
      held: this.#held,
      forwardingFor: (metadata) => (this.#guard.mayForward(metadata) ? this.#forwarding : undefined),
      expectEnd: (peer) => this.#connections.expectEnd(peer),
      run: (work) => this.#lifecycle.run(work),
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
    return refusalOf(this.#lifecycle.explain(error));
  }
}

function asItIs(message: Buffer): Buffer {
  return message;
}

/** A server whose connections can carry calls at once, in plain text, or from `secureConnection` on. */
function tcpListener(tls: TlsIdentity | undefined): TcpServer {
  if (tls === undefined) return createServer({ noDelay: true });
  const server = createTlsServer({ ...tlsOptions(tls), noDelay: true, ALPNProtocols: ['h2'] });
  // A failed handshake concerns only its caller.
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  return server;
}
