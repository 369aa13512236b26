import { createServer, request } from 'node:http';
import type { IncomingMessage, RequestOptions } from 'node:http';
import { connect } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { atEnd } from './cleanup.js';

/**
 * Serves another server below a path, as nginx does with `location /flow/ { proxy_pass http://…/; }`, until the end of the
 * test. Nothing of the other server is reachable outside of that path.
 */
export async function servedBelow(prefix: string, to: { readonly port: number }): Promise<string> {
  const { port } = to;
  const optionsFor = ({ url = '', method, headers }: IncomingMessage): RequestOptions | undefined => {
    if (!url.startsWith(`${prefix}/`)) return undefined;
    return { port, method, path: url.slice(prefix.length), headers };
  };
  const sockets = new Set<Socket>();
  const server = createServer((incoming, response) => {
    const options = optionsFor(incoming);
    if (options === undefined) {
      response.writeHead(404).end('outside of the prefix');
      return;
    }
    const outgoing = request(options, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    outgoing.on('error', () => response.destroy());
    response.on('close', () => outgoing.destroy());
    incoming.pipe(outgoing);
  });
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.on('upgrade', (incoming: IncomingMessage, socket: Socket) => {
    const options = optionsFor(incoming);
    if (options === undefined) {
      socket.destroy();
      return;
    }
    const upstream = connect(port, '127.0.0.1', () => {
      const lines = Object.entries(options.headers ?? {}).map(([name, value]) => `${name}: ${String(value)}`);
      upstream.write([`GET ${options.path} HTTP/1.1`, ...lines, '', ''].join('\r\n'));
      upstream.pipe(socket).pipe(upstream);
    });
    for (const end of [upstream, socket]) {
      end.on('error', () => undefined).on('close', () => (end === socket ? upstream : socket).destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  atEnd(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}${prefix}`;
}
