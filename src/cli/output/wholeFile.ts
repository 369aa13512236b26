import { lstat, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** The name of a file while it is written: no pattern for finished files matches it. */
export function unfinishedName(path: string): string {
  return join(dirname(path), `.${basename(path)}.tmp`);
}

/** Replaces a file as a whole: after a crash, either the old or the new one exists. */
export async function replaceFile(path: string, text: string): Promise<void> {
  await writeFile(unfinishedName(path), text, { flush: true });
  await rename(unfinishedName(path), path);
}

const NO_ROOM = ['ENOSPC', 'EDQUOT', 'EFBIG'];

/**
 * Writes a file that may be read at any time: without room for all of it, the old one stays. What cannot be replaced (a device, a
 * pipe, a link, a mounted file, a directory that takes no new one) is written in place.
 */
export async function writeWhole(path: string, text: string): Promise<void> {
  const about = await lstat(path).catch(() => undefined);
  try {
    if (about?.isFile() !== false) {
      await replaceFile(path, text);
      return;
    }
  } catch (error) {
    await rm(unfinishedName(path), { force: true }).catch(() => undefined);
    if (NO_ROOM.includes(String((error as NodeJS.ErrnoException).code))) throw error;
  }
  await writeFile(path, text);
}
