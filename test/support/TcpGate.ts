import { createServer, type Socket } from 'node:net';
import { lastingPort } from './lastingPort.js';

/** A local port before something else. It can be closed and opened again, and what passes it can be cut or held up. */
export abstract class TcpGate {
  port = 0;
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((socket) => this.accept(this.keep(socket)));

  get connections(): number {
    return this.#sockets.size / 2;
  }

  async up(): Promise<void> {
    // While it refuses connections nobody else may be there.
    this.port ||= await lastingPort();
    await new Promise<void>((resolve) => this.#server.listen(this.port, '127.0.0.1', resolve));
  }

  /** Nobody listens any more, and every connection ends. */
  async down(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Nothing passes any more over the connections that stand; new ones are sound. */
  silence(): void {
    for (const socket of this.#sockets) socket.pause();
  }

  thaw(): void {
    for (const socket of this.#sockets) socket.resume();
  }

  protected abstract accept(socket: Socket): void;

  protected keep<S extends Socket>(socket: S): S {
    this.#sockets.add(socket);
    return socket.on('error', () => undefined).once('close', () => this.#sockets.delete(socket));
  }

  /** Neither outlives the other. */
  protected tie(near: Socket, far: Socket): void {
    near.once('close', () => far.destroy());
    far.once('close', () => near.destroy());
  }
}
