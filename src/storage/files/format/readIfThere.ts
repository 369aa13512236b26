import { readFile } from 'node:fs/promises';
import { hasCode } from '../../StorageError.js';

/** `undefined` for a file that is missing. Expected errors: those of the file system. */
export async function readIfThere(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}
