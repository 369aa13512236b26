import { Server, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import websocket from '@fastify/websocket';
import type { FastifyInstance } from 'fastify';
import { closeCodes, type WebSocketRoute } from './types.js';

/**
 * Takes WebSocket upgrades at one path. Any other upgrade request, such as that of Java's HTTP client for HTTP/2, is
 * served as a plain request: once there is a listener for upgrades, Node.js serves them nowhere else.
 */
export function takeUpgrades(
  app: FastifyInstance,
  route: WebSocketRoute,
  responsesOn: (socket: Socket) => readonly ServerResponse[],
): void {
  // Never listens: the plugin sees only the upgrades passed on to it.
  const upgrades = new Server();
  app.server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    const before = responsesOn(socket).at(-1);
    if (before !== undefined) {
      // Node.js no longer manages the connection, nor listens for its errors, so end it here.
      socket.on('error', () => socket.destroy());
      before.once('close', () => socket.end(() => socket.destroy()));
      return;
    }
    const isWebSocket = request.headers.upgrade?.toLowerCase() === 'websocket';
    // As for other paths: a base address may end with a slash.
    const path = (request.url ?? '').replace(/\/*(?:\?.*)?$/s, '').replaceAll(/\/+/g, '/');
    if (isWebSocket && path === route.path) upgrades.emit('upgrade', request, socket, head);
    else serveWithoutUpgrade(app.server, request, socket, head);
  });
  app.register(websocket, {
    options: { server: upgrades, maxPayload: route.maxMessageBytes, perMessageDeflate: false },
    // The library has closed the connection with a code that says why.
    errorHandler: () => undefined,
    preClose: (done) => {
      for (const client of app.websocketServer.clients)
        client.close(closeCodes.goingAway, 'the daemon is stopping');
      done();
    },
  });
}

/** Hands the connection to the server again, with the request minus its upgrade. */
function serveWithoutUpgrade(server: Server, request: IncomingMessage, socket: Socket, head: Buffer): void {
  const { method = 'GET', url = '/', httpVersion, rawHeaders } = request;
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2);
    // Without it, what Connection says of an upgrade means nothing.
    if (name.toLowerCase() !== 'upgrade') lines.push(`${name}: ${value}`);
  }
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]));
  // With TLS the handshake is over.
  server.emit(server instanceof TlsServer ? 'secureConnection' : 'connection', socket);
}
