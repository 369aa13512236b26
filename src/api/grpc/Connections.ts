import type { Socket } from 'node:net';
import type { ReaderMetrics } from '../../observability/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import { ApiError } from '../view/ApiError.js';

/**
 * From the first byte of a call to the last of its response. Then it is ended, and at the next check its connection.
 */
const CALL_LIMIT_MS = 120_000;
/** Maximum open connections. */
const MAX_CONNECTIONS = 512;
/**
 * When all of those are taken, a connection with open calls that was silent this long is dropped for a new one: its
 * caller may have left without a notification (`makeRoom`).
 */
const SILENT_MS = 5_000;
/** Interval of the check of all connections. */
const LOOK_EVERY_MS = 10_000;
/** Interval of the traffic check: how long a connection may flood before it is noticed. */
const GLANCE_EVERY_MS = 1_000;
/**
 * What a connection may send between two checks without calling a known method: some 4,000 pings, where a well-behaved
 * client sends one.
 */
const MAX_UNCALLED_BYTES = 64 * 1024;
/** What one call may send: headers, the request, and the credit with which its response is taken. */
const MAX_CALL_BYTES = 128 * 1024;
/**
 * What a connection may additionally send per byte it receives: credit, and the pings with which clients measure their
 * window. A ping's reply is as long as the ping.
 */
const MAX_BYTES_PER_BYTE_SENT = 0.25;

/** The caller's address, as grpc-js reports it. */
export interface Peer {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
}

interface OpenCall {
  readonly startedAtMs: number;
  /** Ends the call as far as its caller allows it. */
  readonly refuse: (error: ApiError) => void;
  readonly extraBytes: number;
  isRefused: boolean;
}

/** How a call is watched. */
export interface Watched {
  /** Ends it from our side when it is overdue. Without, it has no time limit. */
  readonly refuse: ((error: ApiError) => void) | undefined;
  /** How much larger its request may be than that of other calls. Default: 0. */
  readonly extraBytes?: number;
}

interface Connection {
  /** `address:port`. */
  readonly peer: string;
  readonly socket: Socket;
  /** Calls with a limit, oldest first; bounded by the streams of a connection. */
  readonly calls: Set<OpenCall>;
  /** Open calls without a limit: streams. */
  streams: number;
  /** Streams that we have ended and that are not over yet. */
  readonly ending: Set<{ isSeen: boolean }>;
  /** Begun since the last check, or open at it. */
  recentCalls: number;
  /** What those may have sent beyond other calls. */
  recentExtraBytes: number;
  bytesReadAtLook: number;
  bytesWrittenAtLook: number;
  /** Bytes read and written, and when they were last seen to grow: to the second. */
  movedBytes: number;
  movedAtMs: number;
}

/** Why we cut a connection: the `reason` of the metric. */
const cutReasons = ['make_room', 'no_room', 'overdue', 'talkative'] as const;
type CutReason = (typeof cutReasons)[number];

export type ConnectionMetrics = Pick<ReaderMetrics, 'grpcConnections' | 'grpcConnectionsCut'>;

/**
 * The open connections, and the calls on each. Cuts those whose callers never finish sending a request or taking a
 * response, and those that send a lot without calling anything.
 *
 * Their number is bounded; a new one is admitted at the cost of an idle or silent one. Node.js does not report a caller
 * that broke a rule of HTTP/2, was sent a GOAWAY and hung up: it stops reading, and the socket stays until a keepalive
 * goes unanswered. Such connections must not keep others out.
 */
export class Connections {
  readonly #clock: Clock;
  readonly #metrics: ConnectionMetrics | undefined;
  readonly #connections = new Map<string, Connection>();
  /** Connections without an open call, longest idle first. */
  readonly #resting = new Set<Connection>();
  #timer: Timer | undefined;
  #glanceTimer: Timer | undefined;

  constructor(dependencies: {
    readonly clock: Clock;
    /** Absent: nothing is counted. */
    readonly metrics?: ConnectionMetrics | undefined;
  }) {
    this.#clock = dependencies.clock;
    this.#metrics = dependencies.metrics;
    this.#metrics?.grpcConnections.set(0);
    for (const reason of cutReasons) this.#metrics?.grpcConnectionsCut.inc({ reason }, 0);
  }

  /** Admits a connection. False: there is no room for it, and it has been closed. */
  add(socket: Socket): boolean {
    if (this.#connections.size >= MAX_CONNECTIONS && !this.#makeRoom()) {
      this.#metrics?.grpcConnectionsCut.inc({ reason: 'no_room' });
      socket.destroy();
      return false;
    }
    const peer = nameOf(socket);
    const connection: Connection = {
      ...{ peer, socket, calls: new Set(), streams: 0, ending: new Set(), recentCalls: 0 },
      ...{ recentExtraBytes: 0, bytesReadAtLook: 0, bytesWrittenAtLook: 0 },
      ...{ movedBytes: 0, movedAtMs: this.#clock.monotonic() },
    };
    this.#connections.set(peer, connection);
    this.#metrics?.grpcConnections.set(this.#connections.size);
    this.#resting.add(connection);
    socket.once('close', () => this.#forget(connection));
    return true;
  }

  /** A call has begun. Returns a function to call when it is over: its response taken, refused, or abandoned. */
  begin(peer: Peer, { refuse, extraBytes = 0 }: Watched): () => void {
    const connection = this.#connections.get(nameOf(peer));
    if (connection === undefined) return () => undefined;
    connection.recentCalls += 1;
    connection.recentExtraBytes += extraBytes;
    this.#resting.delete(connection);
    if (refuse === undefined) {
      connection.streams += 1;
      return () => {
        connection.streams -= 1;
        this.#restWhenDone(connection);
      };
    }
    const call = { startedAtMs: this.#clock.monotonic(), refuse, extraBytes, isRefused: false };
    connection.calls.add(call);
    return () => {
      connection.calls.delete(call);
      this.#restWhenDone(connection);
    };
  }

  /**
   * We have ended a stream of this peer (`address:port`). Returns a function to call when it is over; if that takes
   * longer than a whole interval between two checks, the connection is cut.
   */
  expectEnd(peer: string): () => void {
    const end = { isSeen: false };
    const connection = this.#connections.get(peer);
    connection?.ending.add(end);
    return () => connection?.ending.delete(end);
  }

  /** Starts checking. */
  start(): void {
    this.#lookLater();
    this.#glanceLater();
  }

  close(): void {
    this.#timer?.cancel();
    this.#glanceTimer?.cancel();
  }

  /** Ends every call that has a limit. */
  refuseAll(error: ApiError): void {
    for (const { calls } of this.#connections.values()) for (const { refuse } of [...calls]) refuse(error);
  }

  /** Cuts each connection as soon as our side has ended, without waiting for the peer to hang up. */
  destroyWhenEnded(): void {
    for (const { socket } of this.#connections.values()) socket.once('finish', () => socket.destroy());
  }

  /** Cuts every connection. */
  destroyAll(): void {
    for (const { socket } of [...this.#connections.values()]) socket.destroy();
  }

  #restWhenDone(connection: Connection): void {
    const isOpen = this.#connections.get(connection.peer) === connection;
    if (isOpen && connection.calls.size === 0 && connection.streams === 0) this.#resting.add(connection);
  }

  /** Cuts the connection that was idle longest, else the one that was silent longest. False: all are busy. */
  #makeRoom(): boolean {
    const [rested] = this.#resting;
    const given = rested ?? this.#mostSilent();
    if (given === undefined) return false;
    this.#give(given, 'make_room');
    return true;
  }

  #mostSilent(): Connection | undefined {
    let silentSinceMs = this.#clock.monotonic() - SILENT_MS;
    let mostSilent: Connection | undefined;
    for (const connection of this.#connections.values()) {
      noteMovement(connection, this.#clock.monotonic());
      if (connection.movedAtMs > silentSinceMs) continue;
      silentSinceMs = connection.movedAtMs;
      mostSilent = connection;
    }
    return mostSilent;
  }

  #give(connection: Connection, reason: CutReason): void {
    this.#metrics?.grpcConnectionsCut.inc({ reason });
    this.#forget(connection);
    connection.socket.destroy();
  }

  /** Separate from the close event, which may come after a new connection of the same peer. */
  #forget(connection: Connection): void {
    this.#resting.delete(connection);
    const { peer } = connection;
    if (this.#connections.get(peer) === connection) this.#connections.delete(peer);
    this.#metrics?.grpcConnections.set(this.#connections.size);
  }

  #lookLater(): void {
    this.#timer = this.#clock.setTimer(LOOK_EVERY_MS, () => {
      this.#look();
      this.#lookLater();
    });
  }

  #glanceLater(): void {
    this.#glanceTimer = this.#clock.setTimer(GLANCE_EVERY_MS, () => {
      const nowMs = this.#clock.monotonic();
      for (const connection of [...this.#connections.values()]) {
        noteMovement(connection, nowMs);
        if (isTalkative(connection)) this.#give(connection, 'talkative');
      }
      this.#glanceLater();
    });
  }

  #look(): void {
    const nowMs = this.#clock.monotonic();
    for (const connection of [...this.#connections.values()]) {
      const { socket, calls, streams, ending } = connection;
      const [oldest] = calls;
      const [firstEnded] = ending;
      if (oldest?.isRefused === true || firstEnded?.isSeen === true) this.#give(connection, 'overdue');
      else if (isTalkative(connection)) this.#give(connection, 'talkative');
      else refuseOverdue(calls, nowMs);
      for (const end of ending) end.isSeen = true;
      connection.recentCalls = calls.size + streams;
      connection.recentExtraBytes = 0;
      for (const { extraBytes } of calls) connection.recentExtraBytes += extraBytes;
      connection.bytesReadAtLook = socket.bytesRead;
      connection.bytesWrittenAtLook = socket.bytesWritten;
    }
  }
}

function noteMovement(connection: Connection, nowMs: number): void {
  const { bytesRead, bytesWritten } = connection.socket;
  if (bytesRead + bytesWritten === connection.movedBytes) return;
  connection.movedBytes = bytesRead + bytesWritten;
  connection.movedAtMs = nowMs;
}

/** True for a connection that has sent more since the last check than its calls account for. */
function isTalkative(connection: Connection): boolean {
  const { socket, recentCalls, recentExtraBytes, bytesReadAtLook, bytesWrittenAtLook } = connection;
  const readBytes = socket.bytesRead - bytesReadAtLook;
  const sentBytes = socket.bytesWritten - bytesWrittenAtLook;
  const credit = Math.max(0, sentBytes - readBytes) * MAX_BYTES_PER_BYTE_SENT;
  const allowedBytes = MAX_UNCALLED_BYTES + recentCalls * MAX_CALL_BYTES + recentExtraBytes;
  return readBytes > allowedBytes + credit;
}

function refuseOverdue(calls: ReadonlySet<OpenCall>, nowMs: number): void {
  for (const call of [...calls]) {
    if (nowMs - call.startedAtMs < CALL_LIMIT_MS) return;
    call.isRefused = true;
    const seconds = CALL_LIMIT_MS / 1_000;
    call.refuse(
      new ApiError(
        408,
        'overdue',
        `a call may take ${seconds} s, from its first byte to the last of its response`,
      ),
    );
  }
}

function nameOf({ remoteAddress = '', remotePort = 0 }: Peer): string {
  return `${remoteAddress}:${remotePort}`;
}
