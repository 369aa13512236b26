import { ServerResponse } from 'node:http';
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import type { FastifyInstance } from 'fastify';
import { WebSocketServer } from 'ws';
import type { WebSocket } from 'ws';
import { closeCodes } from './types.js';
import type { WebSocketRoute } from './types.js';

/** Headers that request another protocol, also as they are named in Connection. */
const UPGRADE_HEADERS: ReadonlySet<string> = new Set(['upgrade', 'http2-settings']);

export type Upgrades = ReturnType<typeof takeUpgrades>;

/**
 * Takes WebSocket upgrades at one path: they are routed like any request, and their handler accepts them. Any other upgrade request,
 * such as that of Java's HTTP client for HTTP/2, is served as a plain request: once there is a listener for upgrades, Node.js serves
 * them nowhere else.
 */
export function takeUpgrades(
  app: FastifyInstance,
  { maxMessageBytes, path }: Pick<WebSocketRoute, 'maxMessageBytes' | 'path'>,
) {
  const webSockets = new WebSocketServer({
    noServer: true,
    maxPayload: maxMessageBytes,
    perMessageDeflate: false,
  });
  /** What came behind the head of each upgrade. */
  const upgrades = new WeakMap<IncomingMessage, Buffer>();
  const latest = new WeakMap<Socket, ServerResponse>();
  const note = (request: IncomingMessage, response: ServerResponse): void => {
    latest.set(request.socket, response);
  };
  app.server.on('request', note);
  // Answers like Node.js, and records the response.
  app.server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    note(request, response);
    response.writeHead(417).end();
  });
  app.server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    const before = latest.get(socket);
    if (before?.closed === false) {
      // Node.js no longer manages the connection, so end it here.
      before.once('close', () => socket.end(() => socket.destroy()));
      return;
    }
    const isWebSocket = request.headers.upgrade?.toLowerCase() === 'websocket';
    if (!isWebSocket || pathOf(request.url ?? '') !== path) {
      serveWithoutUpgrade(app.server, request, socket, head);
      return;
    }
    // Node.js has no listener on it any more.
    socket.on('error', () => socket.destroy());
    upgrades.set(request, head);
    const response = new ServerResponse(request);
    response.assignSocket(socket);
    // It was refused.
    response.once('finish', () => socket.destroy());
    app.routing(request, response);
  });
  app.addHook('preClose', (done) => {
    for (const client of webSockets.clients) client.close(closeCodes.goingAway, 'the daemon is stopping');
    done();
  });
  return {
    has: (request: IncomingMessage): boolean => upgrades.has(request),
    accept: (request: IncomingMessage, onOpen: (webSocket: WebSocket) => void): void =>
      webSockets.handleUpgrade(
        request,
        request.socket,
        upgrades.get(request) ?? Buffer.alloc(0),
        (webSocket) => {
          // The library then closes the connection with a code that says why.
          webSocket.on('error', () => undefined);
          onOpen(webSocket);
        },
      ),
    /** Ends all WebSockets at once. */
    cut: (): void => {
      for (const client of webSockets.clients) client.terminate();
    },
  };
}

/** Hands the connection to the server again, with the request minus its upgrade. */
function serveWithoutUpgrade(server: Server, request: IncomingMessage, socket: Socket, head: Buffer): void {
  const { method = 'GET', url = '/', httpVersion, rawHeaders } = request;
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2);
    const kept = name.toLowerCase() === 'connection' ? withoutUpgrade(value) : value;
    if (!UPGRADE_HEADERS.has(name.toLowerCase()) && kept !== '') lines.push(`${name}: ${kept}`);
  }
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]));
  // With TLS the handshake is over.
  server.emit(server instanceof TlsServer ? 'secureConnection' : 'connection', socket);
}

function withoutUpgrade(connection: string): string {
  const options = connection.split(',').map((option) => option.trim());
  return options.filter((option) => !UPGRADE_HEADERS.has(option.toLowerCase())).join(', ');
}

function pathOf(url: string): string {
  return (url.split('?', 1)[0] ?? '').replace(/\/$/, '');
}
