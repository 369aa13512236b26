import type { Socket } from 'node:net';
import type { ReaderMetrics } from '../../../observability/index.js';
import { every } from '../../../runtime/index.js';
import type { Clock, Timer } from '../../../runtime/index.js';
import { ApiError } from '../../view/ApiError.js';

/** From the first byte of a call to the last of its response. Then the call is ended; at the next look, its connection is cut. */
const CALL_LIMIT_MS = 120_000;
/** Default limit. */
export const MAX_CONNECTIONS = 512;
/**
 * When all of those are taken, a connection with open calls that was silent this long is dropped for a new one: its
 * caller may have left without a trace.
 */
const SILENT_MS = 5_000;
/** Interval of the traffic check. */
const CHECK_EVERY_MS = 1_000;
/** Every so many checks, calls are checked too, and traffic counts from there. */
const CHECKS_PER_LOOK = 10;
/**
 * What a connection may send between two looks without a call: some 4,000 pings, where a well-behaved client sends one.
 */
const MAX_UNCALLED_BYTES = 64 * 1024;
/** What one call may send: headers, the request, and the credit for its response. */
const MAX_CALL_BYTES = 128 * 1024;
/**
 * What a connection may additionally send per byte it receives: credit, and the pings with which clients measure their
 * window. The reply to a ping is as long as the ping.
 */
const MAX_BYTES_PER_BYTE_SENT = 0.25;

/** The caller's address, as grpc-js reports it. */
export interface Peer {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
}

/** How a call is watched. */
export interface Watched {
  /** Ends it from our side when it is overdue. Absent: it has no time limit. */
  readonly refuse: ((error: ApiError) => void) | undefined;
  /** How much larger its request may be than that of other calls. */
  readonly extraBytes: number;
}

interface OpenCall extends Watched {
  readonly startedAtMs: number;
  isRefused: boolean;
}

interface Connection {
  /** `address:port`. */
  readonly peer: string;
  readonly socket: Socket;
  /** Oldest first; bounded by the streams of a connection. */
  readonly calls: Set<OpenCall>;
  /** Streams that we have ended and that are not over yet. */
  readonly ending: Set<{ isSeen: boolean }>;
  /** What the calls since the last look may have sent. */
  callBytes: number;
  bytesReadAtLook: number;
  bytesWrittenAtLook: number;
  /** Bytes read and written, and when a check last saw them grow. */
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
export class GrpcConnections {
  readonly #clock: Clock;
  readonly #metrics: ConnectionMetrics | undefined;
  readonly #connections = new Map<string, Connection>();
  /** Connections without an open call, longest idle first. */
  readonly #resting = new Set<Connection>();
  #maxConnections: number;
  #checks = 0;
  #timer: Timer | undefined;

  constructor(
    options: { readonly maxConnections: number },
    dependencies: {
      readonly clock: Clock;
      /** Absent: nothing is counted. */
      readonly metrics?: ConnectionMetrics | undefined;
    },
  ) {
    this.#maxConnections = options.maxConnections;
    this.#clock = dependencies.clock;
    this.#metrics = dependencies.metrics;
    this.#metrics?.grpcConnections.set(0);
    for (const reason of cutReasons) this.#metrics?.grpcConnectionsCut.inc({ reason }, 0);
  }

  /** Applies to new connections. */
  setLimit(maxConnections: number): void {
    this.#maxConnections = maxConnections;
  }

  /** Admits a connection. False: there is no room for it, and it has been closed. */
  add(socket: Socket): boolean {
    if (this.#connections.size >= this.#maxConnections && !this.#makeRoom()) {
      this.#metrics?.grpcConnectionsCut.inc({ reason: 'no_room' });
      socket.destroy();
      return false;
    }
    const peer = nameOf(socket);
    const connection: Connection = {
      ...{ peer, socket, calls: new Set(), ending: new Set(), callBytes: 0 },
      ...{ bytesReadAtLook: 0, bytesWrittenAtLook: 0, movedBytes: 0, movedAtMs: this.#clock.monotonic() },
    };
    this.#connections.set(peer, connection);
    this.#metrics?.grpcConnections.set(this.#connections.size);
    this.#resting.add(connection);
    socket.once('close', () => this.#forget(connection));
    return true;
  }

  /** A call has begun. Returns a function to call when it is over: its response taken, refused, or abandoned. */
  begin(peer: Peer, watched: Watched): () => void {
    const connection = this.#connections.get(nameOf(peer));
    if (connection === undefined) return () => undefined;
    const call = { ...watched, startedAtMs: this.#clock.monotonic(), isRefused: false };
    connection.callBytes += MAX_CALL_BYTES + call.extraBytes;
    connection.calls.add(call);
    this.#resting.delete(connection);
    return () => {
      connection.calls.delete(call);
      const isOpen = this.#connections.get(connection.peer) === connection;
      if (isOpen && connection.calls.size === 0) this.#resting.add(connection);
    };
  }

  /**
   * We have ended a stream of this peer (`address:port`). Returns a function to call when it is over; if that takes
   * longer than from one look to the next, the connection is cut.
   */
  expectEnd(peer: string): () => void {
    const end = { isSeen: false };
    const connection = this.#connections.get(peer);
    connection?.ending.add(end);
    return () => connection?.ending.delete(end);
  }

  /** Starts checking. */
  start(): void {
    this.#timer = every(this.#clock, CHECK_EVERY_MS, () => this.#check());
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** Ends every call that has a limit. */
  refuseAll(error: ApiError): void {
    for (const { calls } of this.#connections.values()) for (const { refuse } of [...calls]) refuse?.(error);
  }

  /** Cuts each connection as soon as our side has ended, without waiting for the peer to hang up. */
  destroyWhenEnded(): void {
    for (const { socket } of this.#connections.values()) socket.once('finish', () => socket.destroy());
  }

  /** Cuts the connection that was idle longest, else the one that was silent longest. False: all are busy. */
  #makeRoom(): boolean {
    const [rested] = this.#resting;
    const given = rested ?? this.#mostSilent();
    if (given === undefined) return false;
    this.#cut(given, 'make_room');
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

  #cut(connection: Connection, reason: CutReason): void {
    this.#metrics?.grpcConnectionsCut.inc({ reason });
    this.#forget(connection);
    connection.socket.destroy();
  }

  /** Not only on close, which may come after a new connection of the same peer. */
  #forget(connection: Connection): void {
    this.#resting.delete(connection);
    const { peer } = connection;
    if (this.#connections.get(peer) === connection) this.#connections.delete(peer);
    this.#metrics?.grpcConnections.set(this.#connections.size);
  }

  #check(): void {
    const nowMs = this.#clock.monotonic();
    this.#checks += 1;
    const isLook = this.#checks % CHECKS_PER_LOOK === 0;
    for (const connection of [...this.#connections.values()]) {
      noteMovement(connection, nowMs);
      if (isTalkative(connection)) this.#cut(connection, 'talkative');
      else if (isLook) this.#look(connection, nowMs);
    }
  }

  #look(connection: Connection, nowMs: number): void {
    const { socket, calls, ending } = connection;
    const [firstEnded] = ending;
    if (firstEnded?.isSeen === true || [...calls].some(({ isRefused }) => isRefused)) {
      this.#cut(connection, 'overdue');
      return;
    }
    for (const call of [...calls]) {
      if (call.refuse === undefined || nowMs - call.startedAtMs < CALL_LIMIT_MS) continue;
      call.isRefused = true;
      call.refuse(overdue());
    }
    for (const end of ending) end.isSeen = true;
    connection.callBytes = 0;
    for (const { refuse, extraBytes } of calls) {
      connection.callBytes += MAX_CALL_BYTES + (refuse === undefined ? 0 : extraBytes);
    }
    connection.bytesReadAtLook = socket.bytesRead;
    connection.bytesWrittenAtLook = socket.bytesWritten;
  }
}

function noteMovement(connection: Connection, nowMs: number): void {
  const { bytesRead, bytesWritten } = connection.socket;
  if (bytesRead + bytesWritten === connection.movedBytes) return;
  connection.movedBytes = bytesRead + bytesWritten;
  connection.movedAtMs = nowMs;
}

/** True for a connection that has sent more since the last look than its calls account for. */
function isTalkative({ socket, callBytes, bytesReadAtLook, bytesWrittenAtLook }: Connection): boolean {
  const readBytes = socket.bytesRead - bytesReadAtLook;
  const sentBytes = socket.bytesWritten - bytesWrittenAtLook;
  const credit = Math.max(0, sentBytes - readBytes) * MAX_BYTES_PER_BYTE_SENT;
  return readBytes > MAX_UNCALLED_BYTES + callBytes + credit;
}

function overdue(): ApiError {
  const message = `a call may take ${CALL_LIMIT_MS / 1_000} s, from its first byte to the last of its response`;
  return new ApiError(408, 'overdue', message);
}

function nameOf({ remoteAddress = '', remotePort = 0 }: Peer): string {
  return `${remoteAddress}:${remotePort}`;
}
