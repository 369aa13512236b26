import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';

/** Carries connections to a node, and counts what travels. */
export interface CountingProxy {
  /** `host:port`. */
  readonly address: string;
  /** So far, of all connections: from the node, and to it. */
  bytes(): { readonly received: number; readonly sent: number };
  close(): void;
}

/** A TCP proxy on a free port, in front of `host:port`. */
export async function startCountingProxy(target: string): Promise<CountingProxy> {
  const [host = '', port = ''] = target.split(':');
  let received = 0;
  let sent = 0;
  const server = createServer({ noDelay: true }, (near) => {
    const far = connect({ host, port: Number(port), noDelay: true });
    near.on('data', (chunk) => (sent += chunk.length));
    far.on('data', (chunk) => (received += chunk.length));
    near.pipe(far);
    far.pipe(near);
    near.on('error', () => far.destroy());
    far.on('error', () => near.destroy());
    near.on('close', () => far.destroy());
    far.on('close', () => near.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    bytes: () => ({ received, sent }),
    close: () => server.close(),
  };
}
