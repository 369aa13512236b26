import { Connections, type Connection, type Peer } from '../server/Connections.js';
import { ApiError } from '../view/ApiError.js';

/** From the first byte of a call to the last of its response. Then the call is ended; at the next look, its connection is cut. */
const CALL_LIMIT_MS = 120_000;
/**
 * When all connections are taken and have calls, one that was silent this long is dropped for a new one: its caller may have
 * left without a trace.
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

/** How a call is watched. */
export interface Watched {
  /** Ends it from our side when it is overdue. Absent: it has no time limit. */
  readonly refuse: ((error: ApiError) => void) | undefined;
  /** How much larger its request may be than that of other calls. */
  readonly extraBytes: number;
}

interface OpenCall extends Watched {
  /** The connection's checks when it began: there are none while the process stands still. */
  readonly startedAtCheck: number;
  isRefused: boolean;
}

interface GrpcConnection extends Connection {
  /** Oldest first; bounded by the streams of a connection. */
  readonly calls: Set<OpenCall>;
  /** Streams that we have ended and that are not over yet. */
  readonly ending: Set<{ isSeen: boolean }>;
  checks: number;
  /** What the calls since the last look may have sent. */
  callBytes: number;
  bytesReadAtLook: number;
  bytesWrittenAtLook: number;
  /** Bytes read and written, and when a check last saw them grow. */
  movedBytes: number;
  movedAtMs: number;
}

/**
 * The connections of the gRPC port, and the calls on each. Cuts those whose callers never finish sending a request or taking a
 * response, and those that send a lot without calling anything.
 *
 * A new one, like a call too many, also takes the place of one with silent calls. Node.js does not report a caller that broke a
 * rule of HTTP/2, was sent a GOAWAY and hung up: it stops reading, and the socket stays until a keepalive goes unanswered. Such
 * connections must not keep others out.
 */
export class GrpcConnections extends Connections<GrpcConnection> {
  override readonly lookEveryMs = CHECK_EVERY_MS;

  /** A call has begun. Returns a function to call when it is over: its response taken, refused, or abandoned. */
  begin(peer: Peer, { extraBytes, refuse }: Watched): () => void {
    const connection = this.of(peer);
    if (connection === undefined) return () => undefined;
    const call = { refuse, extraBytes, startedAtCheck: connection.checks, isRefused: false };
    connection.callBytes += MAX_CALL_BYTES + extraBytes;
    connection.calls.add(call);
    const over = this.begun(connection);
    return () => {
      if (connection.calls.delete(call)) over();
    };
  }

  /**
   * We have ended a stream of this peer (`address:port`). Returns a function to call when it is over; if that takes longer than from one look
   * to the next, the connection is cut.
   */
  expectEnd(peer: string): () => void {
    const end = { isSeen: false };
    const connection = this.of(peer);
    connection?.ending.add(end);
    return () => connection?.ending.delete(end);
  }

  /** Ends every call that has a limit. */
  refuseAll(error: ApiError): void {
    for (const { calls } of this.all()) for (const { refuse } of [...calls]) refuse?.(error);
  }

  /** Cuts each connection as soon as our side has ended, without waiting for the peer to hang up. */
  destroyWhenEnded(): void {
    for (const { socket } of this.all()) socket.once('finish', () => socket.destroy());
  }

  override recordOf(connection: Connection): GrpcConnection {
    return {
      ...connection,
      calls: new Set(),
      ending: new Set(),
      checks: 0,
      callBytes: 0,
      bytesReadAtLook: 0,
      bytesWrittenAtLook: 0,
      movedBytes: 0,
      movedAtMs: this.clock.monotonic(),
    };
  }

  /** For a call too many: cuts the connection with calls that has been silent longest. False where none has been for long. */
  makeRoomForCall(): boolean {
    const silent = this.mostSilent(this.all().filter(({ calls }) => calls.size > 0));
    if (silent !== undefined) this.cut(silent, 'make_room');
    return silent !== undefined;
  }

  override mostSilent(connections = this.all()): GrpcConnection | undefined {
    const nowMs = this.clock.monotonic();
    let mostSilent: GrpcConnection | undefined;
    for (const connection of connections) {
      noteMovement(connection, nowMs);
      const { movedAtMs } = connection;
      if (movedAtMs <= nowMs - SILENT_MS && movedAtMs < (mostSilent?.movedAtMs ?? nowMs))
        mostSilent = connection;
    }
    return mostSilent;
  }

  override look(connection: GrpcConnection, nowMs: number): void {
    noteMovement(connection, nowMs);
    connection.checks += 1;
    if (isTalkative(connection)) this.cut(connection, 'talkative');
    else if (connection.checks % CHECKS_PER_LOOK === 0) this.#lookAtCalls(connection);
  }

  #lookAtCalls(connection: GrpcConnection): void {
    const { socket, calls, ending } = connection;
    const [firstEnded] = ending;
    if (firstEnded?.isSeen === true || [...calls].some(({ isRefused }) => isRefused)) {
      this.cut(connection, 'overdue');
      return;
    }
    for (const call of [...calls]) {
      const checks = connection.checks - call.startedAtCheck;
      if (call.refuse === undefined || checks * CHECK_EVERY_MS < CALL_LIMIT_MS) continue;
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

function noteMovement(connection: GrpcConnection, nowMs: number): void {
  const { bytesRead, bytesWritten } = connection.socket;
  if (bytesRead + bytesWritten === connection.movedBytes) return;
  connection.movedBytes = bytesRead + bytesWritten;
  connection.movedAtMs = nowMs;
}

/** True for a connection that has sent more since the last look than its calls account for. */
function isTalkative({ socket, callBytes, bytesReadAtLook, bytesWrittenAtLook }: GrpcConnection): boolean {
  const readBytes = socket.bytesRead - bytesReadAtLook;
  const sentBytes = socket.bytesWritten - bytesWrittenAtLook;
  const credit = Math.max(0, sentBytes - readBytes) * MAX_BYTES_PER_BYTE_SENT;
  return readBytes > MAX_UNCALLED_BYTES + callBytes + credit;
}

function overdue(): ApiError {
  const message = `a call may take ${CALL_LIMIT_MS / 1_000} s, from its first byte to the last of its response`;
  return new ApiError(408, 'overdue', message);
}
