import { open, stat, writeFile } from 'node:fs/promises';
import { hasCode } from '../StorageError.js';

/** Expected errors: those of the file system, except for a path that does not exist. */
export async function exists(path: string): Promise<boolean> {
  const fault: unknown = await stat(path).catch((error: unknown) => error);
  if (!(fault instanceof Error)) return true;
  if (hasCode(fault, 'ENOENT') || hasCode(fault, 'ENOTDIR')) return false;
  throw fault;
}

/** Makes the names in a directory survive a power loss, if its file system can: some network shares cannot. */
export const syncDirectory = (path: string): Promise<void> =>
  sync(path, 'r').catch((error: unknown) => {
    if (!hasCode(error, 'EINVAL') && !hasCode(error, 'ENOTSUP')) throw error;
  });

/** Makes the content of a file survive a power loss. Expected errors: those of the file system. */
export const syncFile = (path: string): Promise<void> => sync(path, 'r+');

async function sync(path: string, flags: 'r' | 'r+'): Promise<void> {
  const file = await open(path, flags);
  await file.sync().finally(() => file.close());
}

/** Writes a file that only its owner may read, and syncs it. Fails where the file exists. */
export const writeSynced = (path: string, content: Buffer): Promise<void> =>
  writeFile(path, content, { flag: 'wx', mode: 0o600, flush: true });
