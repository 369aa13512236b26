import { statfs } from 'node:fs/promises';

/** Writing resumes at this multiple of the minimum, so that it does not stop again at once. */
const RESUME_AT = 1.25;
/** With room for fewer new files, writing pauses too: LevelDB creates files all the time, some ten at once. */
const MIN_FREE_FILES = 100;
const MIB = 1024 ** 2;

export type DiskRoom = Awaited<ReturnType<typeof diskRoomOf>>;

/** `freeFiles`: how many more files the file system has room for; `Infinity` where it sets no bound of its own. */
export async function diskRoomOf(path: string) {
  const { bavail, blocks, bsize, ffree, files, type } = await statfs(path);
  const freeFiles = files === 0 ? Infinity : ffree;
  return { freeBytes: bavail * bsize, sizeBytes: blocks * bsize, freeFiles, type };
}

/**
 * Why writing pauses: how much is free, how much it needs to resume, and what to do; `undefined` while there is room. Below
 * `minFreeBytes` there is none; 0: there always is.
 */
export function whyNoRoom(
  path: string,
  { freeBytes, freeFiles }: Pick<DiskRoom, 'freeBytes' | 'freeFiles'>,
  { minFreeBytes, isPaused }: { readonly minFreeBytes: number; readonly isPaused: boolean },
): string | undefined {
  if (minFreeBytes === 0) return undefined;
  const factor = isPaused ? RESUME_AT : 1;
  if (freeFiles < MIN_FREE_FILES * factor)
    return (
      `the disk of ${path} has room for ${freeFiles} more files ("df -i"), and for ${Math.ceil(MIN_FREE_FILES * RESUME_AT)} ` +
      'it must have to resume, whatever space is free; remove files there'
    );
  if (freeBytes >= minFreeBytes * factor) return undefined;
  return (
    `${Math.floor(freeBytes / MIB)} MiB are free on the disk of ${path}, and ${Math.ceil((minFreeBytes * RESUME_AT) / MIB)} MiB ` +
    'are needed to resume; free some space, or lower disk.minFreeBytes'
  );
}
