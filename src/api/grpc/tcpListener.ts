import { createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import { createServer as createTlsServer, Server as TlsServer } from 'node:tls';
import { tlsOptions } from '../guard/tls.js';
import type { TlsIdentity } from '../guard/tls.js';

/** TLS handshakes at once; a further connection is dropped. */
const MAX_HANDSHAKES = 512;

/** Calls back with each connection that can carry calls, in the clear or with its TLS handshake behind it. */
export function tcpListener(tls: TlsIdentity | undefined, onConnection: (socket: Socket) => void): Server {
  if (tls === undefined) return createServer({ noDelay: true }, onConnection);
  const options = { ...tlsOptions(tls), noDelay: true, ALPNProtocols: ['h2'] };
  const server = createTlsServer(options, onConnection);
  // A handshake that failed concerns nobody but its caller.
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  return server;
}

/** Of TLS; a connection counts once its handshake is behind it. */
export function boundHandshakes(server: Server, maxConnections: number): void {
  if (server instanceof TlsServer) server.maxConnections = maxConnections + MAX_HANDSHAKES;
}
