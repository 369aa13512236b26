import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import { every } from '../../../runtime/index.js';
import type { Clock, Timer } from '../../../runtime/index.js';
import { ApiError } from '../../view/ApiError.js';

/** Default limit. */
const MAX_CONNECTIONS = 512;
/** Requests that may wait on one connection behind the current one. */
const MAX_PIPELINED = 16;
/** How long written data may wait for the caller. It also bounds how long a caller may take to read one response. */
const UNREAD_LIMIT_MS = 60_000;
/** Interval of the check of all connections. */
const LOOK_EVERY_MS = 10_000;

interface Connection {
  /** Requests behind the current one. */
  waiting: number;
  sentBytes: number;
  /** When `sentBytes` last grew, or nothing was left to send. */
  movedAtMs: number;
}

/**
 * The open connections. Cuts those whose callers do not take their responses, or take them a few bytes at a time: each
 * holds a response in memory, and Node.js itself cuts only those on which nothing moves at all.
 */
export class HttpConnections {
  readonly #clock: Clock;
  readonly #server: Server;
  readonly #connections = new Map<Socket, Connection>();
  #timer: Timer | undefined;

  constructor(
    options: { readonly server: Server; readonly maxConnections?: number | undefined },
    dependencies: { readonly clock: Clock },
  ) {
    this.#clock = dependencies.clock;
    this.#server = options.server;
    this.setLimit(options.maxConnections ?? MAX_CONNECTIONS);
    // With TLS, connections after their handshake; the others are few and short-lived.
    const event = options.server instanceof TlsServer ? 'secureConnection' : 'connection';
    options.server.on(event, (socket: Socket) => {
      // A connection whose upgrade is ignored is announced twice.
      if (this.#connections.has(socket)) return;
      this.#connections.set(socket, { waiting: 0, sentBytes: 0, movedAtMs: this.#clock.monotonic() });
      // Each response that waits may listen for the end of its connection.
      socket.setMaxListeners(2 * MAX_PIPELINED);
      socket.once('close', () => this.#connections.delete(socket));
    });
  }

  /** Further connections are closed; open ones stay. */
  setLimit(maxConnections: number): void {
    this.#server.maxConnections = maxConnections;
  }

  /** Starts checking. */
  start(): void {
    this.#timer = every(this.#clock, LOOK_EVERY_MS, () => this.#look());
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** The refusal of a request when too many wait behind another on its connection. */
  refusalOf(socket: Socket, response: ServerResponse): ApiError | undefined {
    const connection = this.#connections.get(socket);
    // Node.js gives the connection only to the first of several responses.
    if (response.socket !== null || connection === undefined) return undefined;
    if (connection.waiting >= MAX_PIPELINED) {
      const message = `at most ${MAX_PIPELINED} requests may wait on one connection; read the responses before you send more`;
      return new ApiError(429, 'rate_limited', message);
    }
    connection.waiting += 1;
    response.once('finish', () => (connection.waiting -= 1));
    return undefined;
  }

  #look(): void {
    const nowMs = this.#clock.monotonic();
    for (const [socket, connection] of this.#connections) {
      // A chunk counts as sent once the kernel has taken all of it.
      const sentBytes = socket.bytesWritten - socket.writableLength;
      if (socket.writableLength === 0 || sentBytes !== connection.sentBytes) {
        connection.sentBytes = sentBytes;
        connection.movedAtMs = nowMs;
      } else if (nowMs - connection.movedAtMs >= UNREAD_LIMIT_MS) {
        socket.destroy();
      }
    }
  }
}
