import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../runtime/index.js';
import { ApiError } from '../errors.js';

/** From the first byte of a call to the last one of its answer. Then it is ended, and at the next look its connection. */
const CALL_LIMIT_MS = 120_000;
/** Between two looks at all connections. */
const LOOK_EVERY_MS = 10_000;
/**
 * What a connection may send between two looks without calling anything that is known here: some 4,000 pings, where a
 * client in good order sends one.
 */
const MAX_UNCALLED_BYTES = 64 * 1024;
/** What one call may bring along: headers, the request, and the credit with which its answer is taken. */
const MAX_CALL_BYTES = 128 * 1024;
/**
 * What a connection may send for each byte that it is sent beyond those: credit, and the pings with which clients measure how
 * much of it they should grant. What answers a ping is as long as the ping.
 */
const MAX_BYTES_PER_BYTE_SENT = 0.25;

/** Where a call comes from, as grpc-js tells it. */
export interface Peer {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
}

interface OpenCall {
  readonly startedAtMs: number;
  /** Ends the call as far as its caller lets it. */
  readonly refuse: (error: ApiError) => void;
  readonly extraBytes: number;
  isRefused: boolean;
}

/** How a call is looked at. */
export interface Watched {
  /** Ends it from here, when it is overdue. Without, it has no limit in time. */
  readonly refuse: ((error: ApiError) => void) | undefined;
  /** What its request may hold beyond that of other calls. Default: 0. */
  readonly extraBytes?: number;
}

interface Connection {
  readonly socket: Socket;
  /** Those with a limit, the oldest first; their number is bounded by the streams of a connection. */
  readonly calls: Set<OpenCall>;
  /** Open calls without a limit: streams. */
  streams: number;
  /** Streams that have been ended from here and are not over. */
  readonly ending: Set<{ isSeen: boolean }>;
  /** Begun since the last look, or open at it. */
  recentCalls: number;
  /** What those may have brought beyond other calls. */
  recentExtraBytes: number;
  bytesReadAtLook: number;
  bytesWrittenAtLook: number;
}

/**
 * The open connections, and the calls on each. It cuts those whose callers send a request, or take an answer, without
 * coming to an end, and those that send a lot without calling anything. Their number is bounded by the listener.
 */
export class Connections {
  readonly #glanceEveryMs: number | undefined;
  readonly #clock: Clock;
  readonly #connections = new Map<string, Connection>();
  #timer: Timer | undefined;
  #glanceTimer: Timer | undefined;

  constructor(
    options: {
      /** How often connections that send too much are looked for between two looks. Default: never. */
      readonly glanceEveryMs?: number | undefined;
    },
    dependencies: { readonly clock: Clock },
  ) {
    this.#glanceEveryMs = options.glanceEveryMs;
    this.#clock = dependencies.clock;
  }

  add(socket: Socket): void {
    const peer = nameOf(socket);
    this.#connections.set(peer, {
      ...{ socket, calls: new Set(), streams: 0, ending: new Set(), recentCalls: 0 },
      ...{ recentExtraBytes: 0, bytesReadAtLook: 0, bytesWrittenAtLook: 0 },
    });
    socket.once('close', () => this.#connections.delete(peer));
  }

  /** A call has begun. Returns what is to be called when it is over: answered and taken, refused, or given up. */
  begin(peer: Peer, { refuse, extraBytes = 0 }: Watched): () => void {
    const connection = this.#connections.get(nameOf(peer));
    if (connection === undefined) return () => undefined;
    connection.recentCalls += 1;
    connection.recentExtraBytes += extraBytes;
    if (refuse === undefined) {
      connection.streams += 1;
      return () => (connection.streams -= 1);
    }
    const call = { startedAtMs: this.#clock.monotonic(), refuse, extraBytes, isRefused: false };
    connection.calls.add(call);
    return () => connection.calls.delete(call);
  }

  /**
   * A stream of this peer (`address:port`) has been ended from here. Returns what is to be called when it is over; when that
   * takes longer than a whole interval between two looks, the connection is cut.
   */
  expectEnd(peer: string): () => void {
    const end = { isSeen: false };
    const connection = this.#connections.get(peer);
    connection?.ending.add(end);
    return () => connection?.ending.delete(end);
  }

  /** Begins to look. */
  start(): void {
    this.#lookLater();
    if (this.#glanceEveryMs !== undefined) this.#glanceLater(this.#glanceEveryMs);
  }

  close(): void {
    this.#timer?.cancel();
    this.#glanceTimer?.cancel();
  }

  /** Ends every call that has a limit. */
  refuseAll(error: ApiError): void {
    for (const { calls } of this.#connections.values()) for (const { refuse } of [...calls]) refuse(error);
  }

  /** Cuts every connection. */
  destroyAll(): void {
    for (const { socket } of [...this.#connections.values()]) socket.destroy();
  }

  #lookLater(): void {
    this.#timer = this.#clock.setTimer(LOOK_EVERY_MS, () => {
      this.#look();
      this.#lookLater();
    });
  }

  #glanceLater(everyMs: number): void {
    this.#glanceTimer = this.#clock.setTimer(everyMs, () => {
      for (const connection of [...this.#connections.values()]) {
        if (isTalkative(connection)) connection.socket.destroy();
      }
      this.#glanceLater(everyMs);
    });
  }

  #look(): void {
    const nowMs = this.#clock.monotonic();
    for (const connection of [...this.#connections.values()]) {
      const { socket, calls, streams, ending } = connection;
      const [oldest] = calls;
      const [firstEnded] = ending;
      if (oldest?.isRefused === true || firstEnded?.isSeen === true || isTalkative(connection))
        socket.destroy();
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

/** True for a connection that has sent more since the last look than its calls account for. */
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
      new ApiError(408, 'overdue', `a call may take ${seconds} s, to be sent and its answer to be taken`),
    );
  }
}

function nameOf({ remoteAddress = '', remotePort = 0 }: Peer): string {
  return `${remoteAddress}:${remotePort}`;
}
