import type { Server, Socket } from 'node:net';

/** Every TCP connection of a server, including those in their TLS handshake, which only this class tracks. */
export class SocketSet {
  /** Bounded by the server's `maxConnections`. */
  readonly #sockets = new Set<Socket>();

  constructor(options: { readonly server: Server }) {
    options.server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  destroyAll(): void {
    for (const socket of [...this.#sockets]) socket.destroy();
  }
}
