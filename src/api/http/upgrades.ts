import { Server } from 'node:http';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import websocket from '@fastify/websocket';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import { ApiError } from '../view/ApiError.js';
import type { WebSocketRoute } from './types.js';

/** The headers by which a client asks for another protocol, and their names in Connection. */
const ASKING: ReadonlySet<string> = new Set(['upgrade', 'http2-settings']);

/**
 * WebSocket at one path. A request that asks for another protocol, as Java's HTTP client does for HTTP/2, or at another path, is
 * served as if it had not asked: with a listener for upgrades Node.js would give it to nobody else.
 */
export function takeUpgrades(app: FastifyInstance, route: WebSocketRoute): void {
  // Not listening: what the plugin hears of is what we let through.
  const taken = new Server();
  app.server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const isWebSocket = request.headers.upgrade?.toLowerCase() === 'websocket';
    if (isWebSocket && pathOf(request.url ?? '') === route.path) taken.emit('upgrade', request, socket, head);
    else serveAsAsked(app.server, request, socket, head);
  });
  app.register(websocket, {
    options: { server: taken, maxPayload: route.maxMessageBytes, perMessageDeflate: false },
    // The library has closed the connection with the code that says why.
    errorHandler: () => undefined,
    preClose: (done) => {
      route.close();
      done();
    },
  });
}

/** The route itself, behind the hooks and handlers that hold for it. */
export function addWebSocket(
  app: FastifyInstance,
  route: WebSocketRoute,
  accept: (socket: WebSocket, request: FastifyRequest) => void,
): void {
  app.route({
    method: 'GET',
    url: route.path,
    onRequest: (request, _reply, done) => done(request.ws ? undefined : notAsked(route.path)),
    handler: () => undefined,
    wsHandler: accept,
  });
}

function notAsked(path: string): ApiError {
  return new ApiError(
    400,
    'bad_request',
    `${path} speaks WebSocket: open it with a client that does (ws://…)`,
  );
}

/** Puts the request back in front of the connection, without what it asked for. */
function serveAsAsked(server: Server, request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const { method = 'GET', url = '/', httpVersion, rawHeaders } = request;
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2);
    const kept = name.toLowerCase() === 'connection' ? withoutAsking(value) : value;
    if (!ASKING.has(name.toLowerCase()) && kept !== '') lines.push(`${name}: ${kept}`);
  }
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]));
  server.emit('connection', socket);
}

function withoutAsking(connection: string): string {
  const options = connection.split(',').map((option) => option.trim());
  return options.filter((option) => !ASKING.has(option.toLowerCase())).join(', ');
}

function pathOf(url: string): string {
  return (url.split('?', 1)[0] ?? '').replace(/\/$/, '');
}
