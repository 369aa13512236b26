import { connect, createServer } from 'node:net';
import type { Socket } from 'node:net';

/** Bytes of one direction that may be on their way at once: like a fat pipe, it never runs full before its reader does. */
const ON_THE_WAY_BYTES = 64 * 1024 * 1024;

/**
 * A TCP proxy on a free port, in front of `host:port`, on which everything travels half a round trip longer. Unlike a
 * delay of the answers it shows what flow control costs over a distance. It resolves with its own `host:port`.
 */
export async function startDelayProxy(target: string, roundTripMs: number): Promise<string> {
  const [host = '', port = ''] = target.split(':');
  const server = createServer({ noDelay: true }, (near) => {
    const far = connect({ host, port: Number(port), noDelay: true });
    carry(near, far, roundTripMs / 2);
    carry(far, near, roundTripMs / 2);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
  return `127.0.0.1:${address.port}`;
}

function carry(from: Socket, to: Socket, delayMs: number): void {
  let onTheWay = 0;
  from.on('data', (chunk) => {
    onTheWay += chunk.length;
    if (onTheWay > ON_THE_WAY_BYTES) from.pause();
    setTimeout(() => {
      onTheWay -= chunk.length;
      from.resume();
      if (!to.destroyed) to.write(chunk);
    }, delayMs);
  });
  from.on('error', () => to.destroy());
  from.on('close', () => setTimeout(() => to.end(), delayMs));
}
