import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { atEnd } from './cleanup.js';

/** As nginx serves another server with `location /flow/ { proxy_pass http://…/; }`, and nothing outside of that path. */
export async function servedBelow(prefix: string, to: { readonly port: number }): Promise<string> {
  const server = createServer((incoming, response) => {
    const { url = '', method, headers } = incoming;
    if (!url.startsWith(`${prefix}/`)) {
      response.writeHead(404).end('outside of the prefix');
      return;
    }
    const path = url.slice(prefix.length);
    const outgoing = request({ port: to.port, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    outgoing.on('error', () => response.destroy());
    response.on('close', () => outgoing.destroy());
    incoming.pipe(outgoing);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  atEnd(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}${prefix}`;
}
