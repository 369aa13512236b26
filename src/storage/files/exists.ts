import { stat } from 'node:fs/promises';
import { hasCode } from '../StorageError.js';

/** Expected errors: those of the file system, except for a path that does not exist. */
export async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'ENOTDIR')) return false;
    throw error;
  }
}
