import type { Server, Socket } from 'node:net';
import type { ConnectionMetrics, Logger } from '../../observability/index.js';
import { every, type Clock, type Timer } from '../../runtime/index.js';

const MAX_CONNECTIONS = 512;
/** A port counts as full until no connection was cut for lack of room for this long. */
const FULL_FOR_MS = 60_000;

const MORE_CALLERS = 'more need a higher api.maxConnections, or limit of open files: "start" says which';
/** What to do when a port is full. No setting gives the port of metrics more. */
const ADVICE = {
  api: MORE_CALLERS,
  grpc: MORE_CALLERS,
  metrics: 'scrapes and probes need few: find out who holds so many open (ss -tnp)',
} as const;

/** A caller's address, as sockets and grpc-js report it. */
export interface Peer {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
}

/** An open connection, from its acceptance on: a TLS handshake may be all that it ever gets to. */
export interface Connection {
  /** `address:port`. */
  readonly peer: string;
  readonly tcp: Socket;
  /** What requests come over: `tcp`, or the encrypted connection above it. */
  socket: Socket;
  /** Requests and calls under way. */
  requests: number;
}

/** Why a connection was cut: the `reason` of the metric. */
const cutReasons = ['make_room', 'no_room', 'unread', 'overdue', 'talkative'] as const;

export interface ConnectionsOptions {
  /** It may not listen yet. */
  readonly server: Server;
  /** The name in log and metrics. */
  readonly name: 'api' | 'grpc' | 'metrics';
  /** Default: 512. */
  readonly maxConnections?: number | undefined;
}

export interface ConnectionsDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: ConnectionMetrics;
}

/**
 * The open connections of a port. Each holds a file descriptor, so their number is bounded: when all are taken, a new one takes
 * the place of the one that has been without a request longest, and is cut where all have one.
 */
export abstract class Connections<C extends Connection = Connection> {
  abstract readonly lookEveryMs: number;
  readonly clock: Clock;
  readonly server: Server;
  readonly #options: ConnectionsOptions;
  readonly #dependencies: ConnectionsDependencies;
  readonly #byPeer = new Map<string, C>();
  /** Without a request, longest first. */
  readonly #resting = new Set<C>();
  #maxConnections: number;
  /** When a connection was last cut for lack of room, while the port counts as full. */
  #fullAtMs: number | undefined;
  #timer: Timer | undefined;

  constructor(options: ConnectionsOptions, dependencies: ConnectionsDependencies) {
    this.clock = dependencies.clock;
    this.server = options.server;
    this.#options = options;
    this.#dependencies = dependencies;
    this.#maxConnections = options.maxConnections ?? MAX_CONNECTIONS;
    for (const reason of cutReasons)
      dependencies.metrics.connectionsCut.inc({ port: options.name, reason }, 0);
    options.server.on('connection', (tcp: Socket) => this.#opened(tcp));
    options.server.on('secureConnection', (socket: Socket) => {
      const connection = this.of(socket);
      if (connection !== undefined) connection.socket = socket;
    });
    this.#measure();
  }

  get size(): number {
    return this.#byPeer.size;
  }

  get limit(): number {
    return this.#maxConnections;
  }

  /** Connections beyond the limit are cut as far as they have no request. */
  setLimit(maxConnections: number): void {
    this.#maxConnections = maxConnections;
    const tooMany = Math.max(0, this.size - maxConnections);
    for (const connection of [...this.#resting].slice(0, tooMany)) this.cut(connection, 'make_room');
    this.#measure();
  }

  start(): void {
    this.#timer = every(this.clock, this.lookEveryMs, () => {
      const nowMs = this.clock.monotonic();
      for (const connection of [...this.#byPeer.values()]) this.look(connection, nowMs);
      if (nowMs - (this.#fullAtMs ?? nowMs) < FULL_FOR_MS) return;
      this.#fullAtMs = undefined;
      this.#dependencies.logger.info({ server: this.#options.name }, 'connections are free again');
    });
  }

  close(): void {
    this.#timer?.cancel();
  }

  destroyAll(): void {
    for (const { tcp } of [...this.#byPeer.values()]) tcp.destroy();
  }

  /** What is known of a new connection. */
  abstract recordOf(connection: Connection): C;

  /** The regular check of one connection. */
  abstract look(connection: C, nowMs: number): void;

  /** Which connection may be cut although it has a request. */
  mostSilent(): C | undefined {
    return undefined;
  }

  all(): readonly C[] {
    return [...this.#byPeer.values()];
  }

  of(peer: Peer): C | undefined {
    return this.#byPeer.get(nameOf(peer));
  }

  /** A request has begun. Returns a function to call once, when it is over. */
  begun(connection: C): () => void {
    connection.requests += 1;
    this.#resting.delete(connection);
    return () => {
      connection.requests -= 1;
      const isOpen = this.#byPeer.get(connection.peer) === connection;
      if (isOpen && connection.requests === 0) this.#resting.add(connection);
    };
  }

  cut(connection: C, reason: (typeof cutReasons)[number]): void {
    this.#dependencies.metrics.connectionsCut.inc({ port: this.#options.name, reason });
    this.#forget(connection);
    connection.tcp.destroy();
  }

  #opened(tcp: Socket): void {
    const peer = nameOf(tcp);
    // A connection whose upgrade is ignored is announced twice.
    if (this.#byPeer.get(peer)?.tcp === tcp) return;
    const connection = this.recordOf({ peer, tcp, socket: tcp, requests: 0 });
    this.#byPeer.set(peer, connection);
    this.#resting.add(connection);
    tcp.once('close', () => this.#forget(connection));
    if (this.size > this.#maxConnections) this.#makeRoomFor(connection);
    this.#measure();
  }

  #makeRoomFor(newcomer: C): void {
    const [rested] = this.#resting;
    const given = rested === newcomer ? this.mostSilent() : rested;
    this.cut(given ?? newcomer, given === undefined ? 'no_room' : 'make_room');
    if (this.#fullAtMs === undefined) {
      const { name: server } = this.#options;
      const fields = { server, maxConnections: this.#maxConnections, advice: ADVICE[server] };
      this.#dependencies.logger.warn(fields, 'all connections are taken: idle ones make room for new ones');
    }
    this.#fullAtMs = this.clock.monotonic();
  }

  /** Not only on close, which may come after a new connection of the same peer. */
  #forget(connection: C): void {
    this.#resting.delete(connection);
    if (this.#byPeer.get(connection.peer) === connection) this.#byPeer.delete(connection.peer);
    this.#measure();
  }

  #measure(): void {
    const { metrics } = this.#dependencies;
    const labels = { port: this.#options.name };
    metrics.connections.set(labels, this.size);
    metrics.connectionsLimit.set(labels, this.#maxConnections);
  }
}

function nameOf({ remoteAddress = '', remotePort = 0 }: Peer): string {
  return `${remoteAddress}:${remotePort}`;
}
