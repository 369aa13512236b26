import { createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import { createServer as createTlsServer, Server as TlsServer } from 'node:tls';
import { tlsOptions } from '../guard/tls.js';
import type { TlsIdentity } from '../guard/tls.js';

/** TLS handshakes at once; a further connection is dropped. */
const MAX_HANDSHAKES = 512;

/** Calls back with each connection that can carry calls: in plain text, or after its TLS handshake. */
export function tcpListener(tls: TlsIdentity | undefined, onConnection: (socket: Socket) => void): Server {
  if (tls === undefined) return createServer({ noDelay: true }, onConnection);
  const options = { ...tlsOptions(tls), noDelay: true, ALPNProtocols: ['h2'] };
  const server = createTlsServer(options, onConnection);
  // A failed handshake concerns only its caller.
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  return server;
}

/** Bounds TLS handshakes; a connection counts only after its handshake. */
export function boundHandshakes(server: Server, maxConnections: number): void {
  if (server instanceof TlsServer) server.maxConnections = maxConnections + MAX_HANDSHAKES;
}
