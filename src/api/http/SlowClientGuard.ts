import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../runtime/index.js';

/** How long what was written to a connection may lie untaken. It also bounds how long one answer may take to be read. */
const UNREAD_LIMIT_MS = 60_000;
/** Between two looks at all connections. */
const LOOK_EVERY_MS = 10_000;

interface Unread {
  readonly sentBytes: number;
  readonly sinceMs: number;
}

/**
 * Cuts connections whose callers do not take their answers, or take them a few bytes at a time: each holds an answer in
 * memory. Node.js by itself cuts only those on which nothing moves at all.
 */
export class SlowClientGuard {
  readonly #server: Server;
  readonly #clock: Clock;
  /** Every open connection; the server bounds their number. */
  readonly #sockets = new Map<Socket, Unread | undefined>();
  #timer: Timer | undefined;

  constructor(options: { readonly server: Server }, dependencies: { readonly clock: Clock }) {
    this.#server = options.server;
    this.#clock = dependencies.clock;
    this.#server.on('connection', (socket: Socket) => {
      // A connection whose request asked for an upgrade that it does not get comes twice.
      if (this.#sockets.has(socket)) return;
      this.#sockets.set(socket, undefined);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  start(): void {
    this.#timer = this.#clock.setTimer(LOOK_EVERY_MS, () => {
      this.#look();
      this.start();
    });
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #look(): void {
    const nowMs = this.#clock.monotonic();
    for (const [socket, before] of this.#sockets) {
      const unread = unreadOf(socket, nowMs);
      if (unread === undefined || before === undefined || unread.sentBytes !== before.sentBytes) {
        this.#sockets.set(socket, unread);
      } else if (nowMs - before.sinceMs >= UNREAD_LIMIT_MS) {
        socket.destroy();
      }
    }
  }
}

/** A chunk counts as sent once the kernel has taken all of it. */
function unreadOf(socket: Socket, nowMs: number): Unread | undefined {
  if (socket.writableLength === 0) return undefined;
  return { sentBytes: socket.bytesWritten - socket.writableLength, sinceMs: nowMs };
}
