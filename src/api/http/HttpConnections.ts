import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Connections } from '../server/Connections.js';
import type { Connection, ConnectionsDependencies, ConnectionsOptions } from '../server/Connections.js';
import { ApiError, busy } from '../view/ApiError.js';

/** Requests that may wait on one connection behind the current one. */
const MAX_PIPELINED = 16;
/** How long written data may wait for the caller. It also bounds how long a caller may take to read one response. */
const UNREAD_LIMIT_MS = 60_000;
/** The share of the connections that may last: the others are for requests that are answered at once. */
const MAX_LASTING_SHARE = 0.75;
/** Interval of the check of all connections. */
const LOOK_EVERY_MS = 10_000;

interface HttpConnection extends Connection {
  /** Not sent yet. */
  readonly responses: Set<ServerResponse>;
  sentBytes: number;
  /** When `sentBytes` last grew, or nothing was left to send. */
  movedAtMs: number;
}

/**
 * The connections of an HTTP port. Cuts those whose callers do not take their responses, or take them a few bytes at a time:
 * each holds a response in memory, and Node.js itself cuts only those on which nothing moves at all.
 */
export class HttpConnections extends Connections<HttpConnection> {
  override readonly lookEveryMs = LOOK_EVERY_MS;
  #lasting = 0;

  constructor(options: ConnectionsOptions, dependencies: ConnectionsDependencies) {
    super(options, dependencies);
    // A caller who ends its side after the request (`nc -N`) gets the answer, with which the connection ends. Before a handshake is
    // over, none is to come: it ends with the caller's side, as that of a balancer which only looks whether the port is open.
    Object.assign(options.server, { httpAllowHalfOpen: true });
    options.server.on('secureConnection', (socket: Socket) => (socket.allowHalfOpen = true));
    // Before anybody asks for its refusal.
    options.server.prependListener('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
      const connection = this.of(socket);
      if (connection === undefined) return;
      const over = this.begun(connection);
      connection.responses.add(response);
      response.once('close', () => {
        connection.responses.delete(response);
        over();
      });
    });
  }

  /** A stream or a WebSocket begins, with which the connection ends. Returns its refusal when too many last already. */
  hold(socket: Socket): ApiError | undefined {
    const maxLasting = Math.ceil(this.limit * MAX_LASTING_SHARE);
    if (this.#lasting >= maxLasting)
      return busy(`at most ${maxLasting} streams and WebSockets may be open at once; retry`);
    const connection = this.of(socket);
    if (connection === undefined) return undefined;
    this.begun(connection);
    this.#lasting += 1;
    connection.tcp.once('close', () => (this.#lasting -= 1));
    return undefined;
  }

  /** The refusal of a request that has too many before it on its connection: more may have come behind it by now. */
  refusalOf(socket: Socket, response: ServerResponse): ApiError | undefined {
    const responses = this.of(socket)?.responses ?? [];
    if ([...responses].indexOf(response) <= MAX_PIPELINED) return undefined;
    const message = `at most ${MAX_PIPELINED} requests may wait on one connection; read the responses before you send more`;
    return new ApiError(429, 'rate_limited', message);
  }

  /** Whether a response on the connection has begun, and is not all sent. */
  isAnswering(socket: Socket): boolean {
    return [...(this.of(socket)?.responses ?? [])].some(({ headersSent }) => headersSent);
  }

  override recordOf(connection: Connection): HttpConnection {
    const responses = new Set<ServerResponse>();
    // Node.js tells only the one whose turn it is.
    connection.tcp.once('close', () => {
      for (const response of responses) if (response.socket === null) response.emit('close');
    });
    return { ...connection, responses, sentBytes: 0, movedAtMs: this.clock.monotonic() };
  }

  override look(connection: HttpConnection, nowMs: number): void {
    // A chunk counts as sent once the kernel has taken all of it.
    const { bytesWritten, writableLength } = connection.socket;
    const sentBytes = bytesWritten - writableLength;
    if (writableLength === 0 || sentBytes !== connection.sentBytes) {
      connection.sentBytes = sentBytes;
      connection.movedAtMs = nowMs;
    } else if (nowMs - connection.movedAtMs >= UNREAD_LIMIT_MS) {
      this.cut(connection, 'unread');
    }
  }
}
