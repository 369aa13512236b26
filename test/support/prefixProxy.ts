import { request } from 'node:http';
import { RestNode } from './restNode.js';

/** As nginx serves another server with `location /flow/ { proxy_pass http://…/; }`, and nothing outside of that path. */
export async function servedBelow(prefix: string, to: { readonly port: number }): Promise<string> {
  const { url } = await RestNode.start((_, response, { body, headers, method, url: path }) => {
    const isBelow = path.startsWith(`${prefix}/`);
    const asked = { port: to.port, method, path: isBelow ? path.slice(prefix.length) : '/nowhere', headers };
    const outgoing = request(asked, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    outgoing.on('error', () => response.destroy());
    response.on('close', () => outgoing.destroy());
    outgoing.end(body);
  });
  return url + prefix;
}
