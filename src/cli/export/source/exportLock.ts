import type { BigIntStats } from 'node:fs';
import { createServer } from 'node:net';
import type { Server } from 'node:net';

/**
 * Locks by listening on a system address named after the file's identity. It leaves nothing in any directory, and
 * is free the moment the process ends. Systems without such addresses have no lock.
 */
export function lockOf({ dev, ino }: BigIntStats): Promise<Server | 'taken' | undefined> {
  const name = `flow-collection-indexer-export-${dev}-${ino}`;
  const addresses: Partial<Record<NodeJS.Platform, string>> = {
    linux: `\0${name}`,
    win32: `\\\\.\\pipe\\${name}`,
  };
  const path = addresses[process.platform];
  if (path === undefined) return Promise.resolve(undefined);
  const server = createServer((socket) => socket.destroy()).unref();
  return new Promise((resolve) => {
    // Any other error says nothing about other exports.
    server.once('error', (error: NodeJS.ErrnoException) => {
      resolve(error.code === 'EADDRINUSE' ? 'taken' : undefined);
    });
    server.listen(path, () => resolve(server));
  });
}
