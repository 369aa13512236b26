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

/** An open connection, from its acceptance on: it may never finish its TLS handshake. */
export interface Connection<Request> {
  /** `address:port`. */
  readonly peer: string;
  readonly tcp: Socket;
  /** What requests come over: `tcp`, or the encrypted connection above it. */
  socket: Socket;
  /** Oldest first. */
  readonly underWay: Set<Request>;
  /** `Protocol.bytesOf`, and when it last changed or was `undefined`. */
  movedBytes: number | undefined;
  movedAtMs: number;
}

/** Why a connection was cut: the `reason` of the metric. */
const cutReasons = ['make_room', 'no_room', 'unread', 'overdue', 'talkative'] as const;
type CutReason = (typeof cutReasons)[number];

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

/** What differs between protocols. */
interface Protocol<Request, C extends Connection<Request>> {
  readonly lookEveryMs: number;
  /** Bytes that have moved; `undefined` while none are pending. */
  readonly bytesOf: (socket: Socket) => number | undefined;
  /** A connection on which nothing moves for this long may be cut although it has a request. Default: never. */
  readonly silentMs?: number;
  /** The record of a new connection. */
  readonly recordOf: (connection: Connection<Request>) => C;
  /** The regular check of one connection: why to cut it, if at all. */
  readonly look: (connection: C, unmovedMs: number) => CutReason | undefined;
}

/**
 * The open connections of a port. Each holds a file descriptor, so their number is bounded: when all are taken, a new one takes
 * the place of the one that has been without a request longest, else of the most silent one, and is cut where there is none.
 */
export function connections<Request, C extends Connection<Request> = Connection<Request>>(
  { maxConnections = MAX_CONNECTIONS, name, server }: ConnectionsOptions,
  { clock, logger, metrics }: ConnectionsDependencies,
  { bytesOf, look, lookEveryMs, recordOf, silentMs = Infinity }: Protocol<Request, C>,
) {
  const byPeer = new Map<string, C>();
  /** Without a request, longest first. */
  const resting = new Set<C>();
  let limit = maxConnections;
  for (const reason of cutReasons) metrics.connectionsCut.inc({ port: name, reason }, 0);
  let requests = 0;
  /** When a connection was last cut for lack of room, while the port counts as full. */
  let fullAtMs: number | undefined;
  let timer: Timer | undefined;

  const measure = (): void => {
    metrics.connections.set({ port: name }, byPeer.size);
    metrics.connectionsLimit.set({ port: name }, limit);
  };
  /** Not only on `close`, which may come after a new connection from the same address and port. */
  const forget = (connection: C): void => {
    resting.delete(connection);
    if (byPeer.get(connection.peer) === connection) byPeer.delete(connection.peer);
    measure();
  };
  const cut = (connection: C, reason: CutReason): void => {
    metrics.connectionsCut.inc({ port: name, reason });
    forget(connection);
    connection.tcp.destroy();
  };
  const unmovedMs = (connection: C): number => {
    const bytes = bytesOf(connection.socket);
    const nowMs = clock.monotonic();
    if (bytes === undefined || bytes !== connection.movedBytes) connection.movedAtMs = nowMs;
    connection.movedBytes = bytes;
    return nowMs - connection.movedAtMs;
  };
  const mostSilent = (): C | undefined => {
    const silent = [...byPeer.values()].filter(
      (each) => each.underWay.size > 0 && unmovedMs(each) >= silentMs,
    );
    return silent.sort((one, other) => one.movedAtMs - other.movedAtMs)[0];
  };
  const makeRoomFor = (newcomer: C): void => {
    const [rested] = resting;
    const given = rested === newcomer ? mostSilent() : rested;
    if (given === undefined) cut(newcomer, 'no_room');
    else cut(given, 'make_room');
    if (fullAtMs === undefined) {
      const fields = { server: name, maxConnections: limit, advice: ADVICE[name] };
      logger.warn(fields, 'all connections are taken: idle ones make room for new ones');
    }
    fullAtMs = clock.monotonic();
  };
  const of = (peer: Peer): C | undefined => byPeer.get(nameOf(peer));

  server.on('connection', (tcp: Socket) => {
    // A connection whose upgrade is ignored is announced twice.
    if (of(tcp)?.tcp === tcp) return;
    const moved = { movedBytes: undefined, movedAtMs: clock.monotonic() };
    const connection = recordOf({ peer: nameOf(tcp), tcp, socket: tcp, underWay: new Set(), ...moved });
    byPeer.set(connection.peer, connection);
    resting.add(connection);
    tcp.once('close', () => forget(connection));
    if (byPeer.size > limit) makeRoomFor(connection);
    measure();
  });
  server.on('secureConnection', (socket: Socket) => {
    const connection = of(socket);
    if (connection !== undefined) connection.socket = socket;
  });
  measure();

  return {
    server,
    of,
    all: (): readonly C[] => [...byPeer.values()],
    limit: (): number => limit,
    /** Requests in progress on all connections. */
    requests: (): number => requests,

    /** Cuts connections beyond the limit, but only those without a request. */
    setLimit: (wanted: number): void => {
      limit = wanted;
      const tooMany = Math.max(0, byPeer.size - limit);
      for (const connection of [...resting].slice(0, tooMany)) cut(connection, 'make_room');
      measure();
    },

    start: (): void => {
      timer = every(clock, lookEveryMs, () => {
        for (const connection of [...byPeer.values()]) {
          const reason = look(connection, unmovedMs(connection));
          if (reason !== undefined) cut(connection, reason);
        }
        if (fullAtMs === undefined || clock.monotonic() - fullAtMs < FULL_FOR_MS) return;
        fullAtMs = undefined;
        logger.info({ server: name }, 'connections are free again');
      });
    },

    close: (): void => timer?.cancel(),

    destroyAll: (): void => {
      for (const { tcp } of [...byPeer.values()]) tcp.destroy();
    },

    /** A request has begun. Returns a function to call when it is over. */
    begun: (connection: C, request: Request): (() => void) => {
      const { peer, underWay } = connection;
      underWay.add(request);
      requests += 1;
      resting.delete(connection);
      return () => {
        if (underWay.delete(request)) requests -= 1;
        if (underWay.size === 0 && byPeer.get(peer) === connection) resting.add(connection);
      };
    },

    /** The connection counts as in use until it closes, even without a request. */
    keep: (connection: C): void => void resting.delete(connection),

    /** For a request beyond a limit: cuts the most silent connection that has requests. False if none is silent. */
    makeRoom: (): boolean => {
      const silent = mostSilent();
      if (silent !== undefined) cut(silent, 'make_room');
      return silent !== undefined;
    },
  };
}

function nameOf({ remoteAddress = '', remotePort = 0 }: Peer): string {
  return `${remoteAddress}:${remotePort}`;
}
