import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import { lastingPort } from './lastingPort.js';

/** A way to a database that can be cut. */
export class TcpFaults {
  readonly url: string;
  /** Connections cut at a word. */
  cuts = 0;
  readonly #target: { readonly host: string; readonly port: number };
  readonly #port: number;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;
  #word: string | undefined;
  #isFrozen = false;

  private constructor(target: URL, port: number) {
    this.#target = { host: target.hostname, port: Number(target.port || 5432) };
    this.#port = port;
    const its = new URL(target);
    its.hostname = '127.0.0.1';
    its.port = String(port);
    this.url = its.href;
  }

  static async before(url: string): Promise<TcpFaults> {
    const faults = new TcpFaults(new URL(url), await lastingPort());
    await faults.up();
    return faults;
  }

  /** The next connection that sends this gets no answer any more: it is cut once the database has answered. */
  cutAfterRequest(word: string): void {
    this.#word = word;
  }

  async up(): Promise<void> {
    this.#server = createServer((socket) => this.#relay(socket));
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  /** Nobody listens any more, and every connection ends. */
  async down(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    for (const socket of this.#sockets) socket.destroy();
    if (server === undefined) return;
    server.close();
    await once(server, 'close');
  }

  /** Nothing passes any more, either way, and nobody is told; new connections come about all the same. */
  freeze(): void {
    this.#isFrozen = true;
    for (const socket of this.#sockets) socket.pause();
  }

  thaw(): void {
    this.#isFrozen = false;
    for (const socket of this.#sockets) socket.resume();
  }

  close(): Promise<void> {
    return this.down();
  }

  #relay(socket: Socket): void {
    const upstream = connect(this.#target);
    let isCut = false;
    for (const each of [socket, upstream]) {
      this.#sockets.add(each);
      each.on('error', () => undefined);
      each.on('close', () => {
        this.#sockets.delete(each);
        socket.destroy();
        upstream.destroy();
      });
    }
    socket.on('data', (data) => {
      if (this.#word !== undefined && data.includes(this.#word)) {
        this.#word = undefined;
        isCut = true;
      }
      upstream.write(data);
    });
    upstream.on('data', (data) => {
      if (!isCut) {
        socket.write(data);
        return;
      }
      this.cuts += 1;
      socket.destroy();
    });
    if (this.#isFrozen) for (const each of [socket, upstream]) each.pause();
  }
}
