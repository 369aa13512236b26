import { connections, type Connection, type Peer } from '../server/connections.js';
import type { ConnectionsDependencies, ConnectionsOptions } from '../server/connections.js';
import { ApiError } from '../view/ApiError.js';

/** From the first byte of a call to the last of its response: then the call is ended. */
const CALL_LIMIT_MS = 120_000;
/** For the caller to take that, or the end of a stream: then its connection is cut. */
const END_LIMIT_MS = 10_000;
/**
 * When all connections are taken and have calls, one that was silent this long is dropped for a new one: its caller may have
 * left without a trace.
 */
const SILENT_MS = 5_000;
/** Interval of the check. */
const CHECK_EVERY_MS = 1_000;
/** After this many checks, the count of traffic restarts. */
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

interface OpenCall {
  /** Ends it from our side. Absent: it has no time limit, or we have ended it. */
  refuse: ((error: ApiError) => void) | undefined;
  /** How much larger its request may be than that of other calls. */
  readonly extraBytes: number;
  /** Checks left until it is refused, or its connection cut; a suspended process makes none. */
  checksLeft: number;
}

/** The state of a call that we have ended. */
const ENDED = { refuse: undefined, checksLeft: END_LIMIT_MS / CHECK_EVERY_MS } as const;

interface GrpcConnection extends Connection<OpenCall> {
  checks: number;
  /** Bytes read and written until the last look, and what may be read from there until the next. */
  look: { readonly readBytes: number; readonly writtenBytes: number; mayReadBytes: number };
}

/**
 * The connections of the gRPC port, and the calls on each. Cuts those whose callers never finish sending a request or taking a
 * response, and those that send a lot without calling anything.
 *
 * A new one, like a call too many, also takes the place of one with silent calls. Node.js does not report a caller that broke a
 * rule of HTTP/2, was sent a GOAWAY and hung up: it stops reading, and the socket stays until a keepalive goes unanswered. Such
 * connections must not keep others out.
 */
export function grpcConnections(options: ConnectionsOptions, dependencies: ConnectionsDependencies) {
  const all = connections<OpenCall, GrpcConnection>(options, dependencies, {
    lookEveryMs: CHECK_EVERY_MS,
    silentMs: SILENT_MS,
    bytesOf: ({ bytesRead, bytesWritten }) => bytesRead + bytesWritten,
    recordOf: (connection) => {
      const look = { readBytes: 0, writtenBytes: 0, mayReadBytes: MAX_UNCALLED_BYTES };
      return { ...connection, checks: 0, look };
    },
    look: (connection) => {
      const { underWay, socket } = connection;
      let mayReadBytes = MAX_UNCALLED_BYTES;
      for (const call of [...underWay]) {
        const { refuse } = call;
        call.checksLeft -= 1;
        if (call.checksLeft === 0) {
          if (refuse === undefined) return 'overdue';
          Object.assign(call, ENDED);
          refuse(overdue());
        }
        mayReadBytes += MAX_CALL_BYTES + (call.refuse === undefined ? 0 : call.extraBytes);
      }
      connection.checks += 1;
      if (isTalkative(connection)) return 'talkative';
      if (connection.checks % CHECKS_PER_LOOK === 0)
        connection.look = { readBytes: socket.bytesRead, writtenBytes: socket.bytesWritten, mayReadBytes };
      return undefined;
    },
  });
  /** By the metadata of their requests. */
  const calls = new WeakMap<WeakKey, OpenCall>();

  return {
    ...all,

    /**
     * The call of these metadata has begun. Returns a function to call when it is over: its response taken, refused, or
     * abandoned.
     */
    begin: (peer: Peer, metadata: WeakKey, watched: Omit<OpenCall, 'checksLeft'>): (() => void) => {
      const connection = all.of(peer);
      if (connection === undefined) return () => undefined;
      const checksLeft = watched.refuse === undefined ? Infinity : CALL_LIMIT_MS / CHECK_EVERY_MS;
      const call = { ...watched, checksLeft };
      calls.set(metadata, call);
      connection.look.mayReadBytes += MAX_CALL_BYTES + call.extraBytes;
      return all.begun(connection, call);
    },

    /** We have ended a call. If it is not over in END_LIMIT_MS, its connection is cut. */
    ended: (metadata: WeakKey): void => {
      const call = calls.get(metadata);
      if (call !== undefined) Object.assign(call, ENDED);
    },
  };
}

/** True for a connection that has sent more since the last look than its calls account for. */
function isTalkative({ look, socket }: GrpcConnection): boolean {
  const readBytes = socket.bytesRead - look.readBytes;
  const sentBytes = socket.bytesWritten - look.writtenBytes;
  return readBytes > look.mayReadBytes + Math.max(0, sentBytes - readBytes) * MAX_BYTES_PER_BYTE_SENT;
}

function overdue(): ApiError {
  const message = `a call may take ${CALL_LIMIT_MS / 1_000} s, from its first byte to the last of its response`;
  return new ApiError(408, 'overdue', message);
}
