import type { FileHandle } from 'node:fs/promises';
import { createServer } from 'node:net';
import { OperatorError } from '../../../runtime/index.js';

/**
 * Locks an open file or directory, and returns what unlocks it. The lock is a system address named after the file's identity,
 * which this process listens on: it leaves nothing in any directory, and is free the moment the process ends. Systems without
 * such addresses have no lock. Expected errors: OperatorError `storage` with this message, when another process has the lock.
 */
export async function lockFile(handle: FileHandle, takenMessage: string): Promise<() => void> {
  const { dev, ino } = await handle.stat({ bigint: true });
  const name = `flow-collection-indexer-export-${dev}-${ino}`;
  const addresses: Partial<Record<NodeJS.Platform, string>> = {
    linux: `\0${name}`,
    win32: `\\\\.\\pipe\\${name}`,
  };
  const path = addresses[process.platform];
  if (path === undefined) return () => undefined;
  const server = createServer((socket) => socket.destroy()).unref();
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') reject(new OperatorError('storage', takenMessage));
      // Any other error says nothing about other exports.
      else resolve(() => undefined);
    });
    server.listen(path, () => resolve(() => server.close()));
  });
}
