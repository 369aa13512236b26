import { open, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { syncDirectory } from '../../../storage/index.js';

/** The name of a file while it is written: no pattern for finished files matches it. */
export function unfinishedName(path: string): string {
  return join(dirname(path), `.${basename(path)}.tmp`);
}

/** Replaces a file as a whole: after a crash, the old or the new one is there. */
export async function replaceFile(path: string, text: string): Promise<void> {
  const handle = await open(unfinishedName(path), 'w');
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(unfinishedName(path), path);
  await syncDirectory(dirname(path));
}

/** For `catch`: ignores that a file does not exist. */
export function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
