import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createServer } from 'node:tls';
import { onTestFinished } from 'vitest';

/** A self-signed certificate for `localhost`, as Flow's nodes have one for their own names; for tests only. */
export const certificate = join(import.meta.dirname, '../data/tls/localhost-cert.pem');
const key = join(import.meta.dirname, '../data/tls/localhost-key.pem');

/** A node behind TLS: what comes in encrypted goes on to it in the clear. Resolves with the port. */
export async function encrypted(node: { readonly host: string; readonly port: number }): Promise<number> {
  const sockets = new Set<{ destroy(): unknown }>();
  const server = createServer(
    { cert: readFileSync(certificate), key: readFileSync(key), ALPNProtocols: ['h2'] },
    (outer) => {
      const inner = connect(node.port, node.host);
      for (const socket of [outer, inner]) {
        sockets.add(socket);
        socket.on('error', () => undefined);
        socket.on('close', () => {
          outer.destroy();
          inner.destroy();
        });
      }
      outer.pipe(inner).pipe(outer);
    },
  );
  server.on('tlsClientError', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, resolve));
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}
