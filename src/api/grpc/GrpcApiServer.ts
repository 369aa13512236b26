import { once } from 'node:events';
import { createServer, type Server as TcpServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { Server, ServerCredentials, status } from '@grpc/grpc-js';
import type { ServerWritableStream, StatusObject } from '@grpc/grpc-js';
import type { Forwarder } from '../../access/index.js';
import type { ConnectionMetrics } from '../../observability/index.js';
import { sleep, type Clock } from '../../runtime/index.js';
import type { IndexReader } from '../../storage/index.js';
import type { ChangeFeed } from '../feed/changeFeed.js';
import { tlsOptions, type TlsIdentity } from '../guard/TokenGuard.js';
import type { ApiMetrics, ForwardMetrics } from '../limits/counters.js';
import { ListeningServer, type ServerDependencies, type ServerOptions } from '../server/ListeningServer.js';
import { stopping } from '../view/ApiError.js';
import type { StatusSource } from '../view/statusDocument.js';
import type { DuplexCall } from './calls/calls.js';
import { grpcForwarding, MAX_FORWARDED_REQUEST_BYTES, type GrpcForwarding } from './grpcForwarding.js';
import { admission, MAX_REQUEST_BYTES } from './admission.js';
import { grpcConnections } from './grpcConnections.js';
import { healthService } from './health.js';
import { refusalOf } from './refusals.js';
import { INDEX_SERVICES, servedCalls } from './servedCalls.js';

/** Concurrent calls per connection; further ones wait with the caller. */
const MAX_STREAMS_PER_CONNECTION = 100;
/** For a connection without a call; clients reconnect by themselves. */
const MAX_CONNECTION_IDLE_MS = 300_000;
/** Interval of the pings to a caller, and its time to respond: balancers drop a connection that is quiet for 60 s. */
const KEEPALIVE_MS = 30_000;
const KEEPALIVE_TIMEOUT_MS = 20_000;

export interface GrpcApiServerOptions extends ServerOptions {
  readonly chainId: string;
  /** Version of the program. */
  readonly version: string;
  /** The first is suggested to callers who need what only an access node has. */
  readonly accessNodes: readonly string[];
}

export interface GrpcApiServerDependencies extends ServerDependencies {
  readonly store: IndexReader;
  readonly status: Pick<StatusSource, 'range'>;
  readonly health: { readiness(): { readonly ready: boolean } };
  /** Its owner ends its streams before the server is closed. */
  readonly feed: ChangeFeed;
  /** Serves calls that the index cannot. Absent: they are refused. */
  readonly forwarder?: Pick<Forwarder, 'forward'> | undefined;
  readonly metrics: ForwardMetrics & ConnectionMetrics & ApiMetrics;
}

/**
 * The read side over gRPC on its own TCP port, bytes in and bytes out: what an index can serve of Flow's `AccessAPI`, our own
 * `IndexAPI`, and the standard services for health and reflection, with bounds on everything a caller sends and does not take.
 * It serves from the first second on, even while nothing is indexed.
 */
export class GrpcApiServer extends ListeningServer {
  override readonly accepted: ReturnType<typeof grpcConnections>;
  readonly #clock: Clock;
  readonly #fail: (error: unknown) => void;
  readonly #grpc: Server;
  readonly health: ReturnType<typeof healthService>;
  /** For calls that the index cannot serve; absent: they are refused. */
  readonly forwarding: GrpcForwarding | undefined;

  constructor(options: GrpcApiServerOptions, dependencies: GrpcApiServerDependencies) {
    super('grpc', options, dependencies);
    const { clock, fail, forwarder, metrics } = dependencies;
    const { maxConnections, secrets } = options;
    this.#clock = clock;
    this.#fail = fail;
    const server = tcpListener(secrets?.tls);
    this.accepted = grpcConnections({ server, name: 'grpc', maxConnections }, dependencies);
    this.health = healthService(INDEX_SERVICES, dependencies.health);
    this.forwarding = forwarder && grpcForwarding(this, { forwarder, clock, metrics });
    const calls = servedCalls(options, dependencies, this);
    this.#grpc = new Server({
      'grpc.max_receive_message_length':
        forwarder === undefined ? MAX_REQUEST_BYTES : MAX_FORWARDED_REQUEST_BYTES,
      'grpc.max_concurrent_streams': MAX_STREAMS_PER_CONNECTION,
      'grpc.max_connection_idle_ms': MAX_CONNECTION_IDLE_MS,
      'grpc.keepalive_time_ms': KEEPALIVE_MS,
      'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
      'grpc.enable_channelz': 0,
      interceptors: [admission(calls, this)],
    });
    // Connections are accepted here and handed on, so that they can be bounded and cut and port errors are clear.
    const injector = this.#grpc.createConnectionInjector(ServerCredentials.createInsecure());
    server.on(secrets?.tls === undefined ? 'connection' : 'secureConnection', (socket: Socket) => {
      if (!socket.destroyed) injector.injectConnection(socket);
    });
    const asItIs = (message: Buffer): Buffer => message;
    for (const [path, { handler, type }] of calls) this.#grpc.register(path, handler, asItIs, asItIs, type);
  }

  override async listen(at: Pick<ServerOptions, 'host' | 'port'>): Promise<void> {
    const { server } = this.accepted;
    await once(server.listen(at), 'listening');
    server.on('error', this.#fail);
  }

  override async stop(): Promise<void> {
    this.health.close();
    this.forwarding?.close();
    const closed = new Promise<void>((resolve) => this.accepted.server.close(() => resolve()));
    // Without waiting for the peers to hang up.
    for (const { socket } of this.accepted.all()) socket.once('finish', () => socket.destroy());
    // Its callback is useless: on Node.js 24 it comes while calls are still in progress.
    this.#grpc.tryShutdown(() => undefined);
    await closed;
    this.#grpc.forceShutdown();
  }

  override async cut(): Promise<void> {
    for (const { underWay } of this.accepted.all())
      for (const { refuse } of [...underWay]) refuse?.(stopping());
    // Let the final statuses leave first.
    await sleep(this.#clock, 0);
  }

  /** Ends a stream from our side. If the caller does not take even that, its connection is cut. */
  endStream(call: DuplexCall | ServerWritableStream<Buffer, Buffer>, end: StatusObject): void {
    if (call.cancelled) return;
    this.accepted.ended(call.metadata);
    if (end.code === status.OK) call.end(end.metadata);
    else call.emit('error', end);
  }

  /** The status for an error that a call threw. */
  refusalFor(error: unknown): StatusObject {
    return refusalOf(this.explain(error));
  }
}

/** A server whose connections can carry calls at once, in plain text, or from `secureConnection` on. */
function tcpListener(tls: TlsIdentity | undefined): TcpServer {
  if (tls === undefined) return createServer({ noDelay: true });
  const server = createTlsServer({ ...tlsOptions(tls), noDelay: true, ALPNProtocols: ['h2'] });
  // A failed handshake concerns only its caller.
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  return server;
}

/**
 * Major versions of Node.js with releases in which any client can crash an HTTP/2 server (nodejs/node#64850): seen in
 * 22.23.3 and 26.8.1.
 */
const UNSOUND_MAJORS: readonly number[] = [22, 26];

/** False if a few bytes from any client of an HTTP/2 server may end the process. `version`: like `process.version`. */
export function hasSoundHttp2(version: string): boolean {
  return !UNSOUND_MAJORS.includes(Number.parseInt(version.slice(1), 10));
}
