import { createServer } from 'node:net';
import type { Server } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { tlsOptions } from '../guard/tls.js';
import type { TlsIdentity } from '../guard/tls.js';

/** A server whose connections can carry calls at once, in plain text, or from `secureConnection` on. */
export function tcpListener(tls: TlsIdentity | undefined): Server {
  if (tls === undefined) return createServer({ noDelay: true });
  const server = createTlsServer({ ...tlsOptions(tls), noDelay: true, ALPNProtocols: ['h2'] });
  // A failed handshake concerns only its caller.
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  return server;
}
