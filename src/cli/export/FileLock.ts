import type { BigIntStats } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { Server } from 'node:net';
import { named, OperatorError } from '../../runtime/index.js';
import { outputError } from '../output/output.js';

/** Held by the one export that writes to a file. */
export interface FileLock {
  /** Idempotent. */
  release(): void;
}

const NO_LOCK: FileLock = { release: () => undefined };

/**
 * Makes sure that no other export of this machine writes to a file; one that does not exist is made, empty. What is held is an
 * address of the system's that goes by the file and needs no name in any directory: it is free again the moment that the
 * process ends, however it does. Systems without such addresses have no lock, and neither have pipes and devices. Expected errors: OperatorError (`storage`).
 */
export async function lockFile(path: string): Promise<FileLock> {
  const identity = await identityOf(path);
  const address = identity && addressFor(identity);
  if (address === undefined) return NO_LOCK;
  const server = createServer((socket) => socket.destroy());
  const fault = await listening(server, address);
  if (fault === undefined) return { release: () => void server.close() };
  // Whatever else keeps us from it says nothing of other exports.
  if (fault.code !== 'EADDRINUSE') return NO_LOCK;
  throw new OperatorError(
    'storage',
    `Another export writes to ${named(path)}. Wait until it ends, or choose another file.`,
  );
}

/** What the file is, whatever it is called; `undefined`: no file that keeps what is written. */
async function identityOf(path: string): Promise<string | undefined> {
  try {
    const about = await statOrMake(path);
    return about.isFile() ? `${about.dev}-${about.ino}` : undefined;
  } catch (error) {
    throw outputError(error, named(path));
  }
}

/** What is there is not opened: the reader of a pipe would take the end of that for the end of all. */
async function statOrMake(path: string): Promise<BigIntStats> {
  try {
    return await stat(path, { bigint: true });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
  }
  const handle = await open(path, 'a');
  try {
    return await handle.stat({ bigint: true });
  } finally {
    await handle.close();
  }
}

function addressFor(identity: string): string | undefined {
  const name = `flow-collection-indexer-export-${identity}`;
  if (process.platform === 'linux') return `\0${name}`;
  return process.platform === 'win32' ? `\\\\.\\pipe\\${name}` : undefined;
}

/** What kept the server from listening. */
function listening(server: Server, address: string): Promise<NodeJS.ErrnoException | undefined> {
  return new Promise((resolve) => {
    server.once('error', resolve);
    server.listen(address, () => resolve(undefined));
    // It must not keep a process that is done.
    server.unref();
  });
}
