import { createHash } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough, type Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { named, OperatorError, outputError } from '../../runtime/index.js';
import { lockNamed } from '../../storage/index.js';
import { unfinishedName } from '../output/wholeFile.js';

/** Opens and locks a file or directory. Expected errors: those of the system; OperatorError `storage`: another process has the lock. */
export async function openLocked(path: string, flags: string) {
  const handle = await open(path, flags);
  try {
    const about = await handle.stat({ bigint: true });
    const isLocked = about.isFile() || about.isDirectory();
    const unlock = isLocked ? await lockNamed(`export-${about.dev}-${about.ino}`) : () => undefined;
    const close = async (): Promise<void> => {
      await handle.close();
      unlock?.();
    };
    if (unlock !== undefined) return { about, close, handle };
    const message = `Another export writes to ${named(path)}. Wait until it ends, or choose another ${about.isFile() ? 'file' : 'directory'}.`;
    throw new OperatorError('storage', message);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

export interface GrowingFile {
  readonly table: string;
  rows(): number;
  /**
   * The bytes that are ready, once there are enough to be written, or `isLast`: all that is left. Call it after every block.
   * Nothing changes them afterwards.
   */
  take(isLast: boolean): Uint8Array | undefined;
}

/**
 * Begins a file in a directory, replacing an unfinished one of the same name; it gets its name once it is complete and on disk.
 * Everything goes through `stream`. Expected errors, also of what it returns: those of the system.
 */
export async function beginPart(
  file: GrowingFile,
  { directory, path }: { readonly directory: string; readonly path: string },
  stream: Transform = new PassThrough(),
) {
  const place = join(directory, path);
  const handle = await open(unfinishedName(place), 'w');
  const sha256 = createHash('sha256');
  let bytes = 0;
  const counted = async function* (pieces: AsyncIterable<Buffer>) {
    for await (const piece of pieces) {
      sha256.update(piece);
      bytes += piece.length;
      yield piece;
    }
  };
  const written = pipeline(stream, counted, handle.createWriteStream({ flush: true }));
  // The next call reports a failure.
  written.catch(() => undefined);
  /** The last piece is compressed and written while the caller makes the next one. */
  let taken: Promise<unknown> = Promise.resolve();
  const grow = async (isLast = false): Promise<void> => {
    const piece = file.take(isLast);
    if (piece === undefined) return;
    // A stream that is cut off takes nothing more.
    await Promise.race([written, taken]);
    taken = new Promise((resolve) => stream.write(piece, resolve));
  };
  return {
    /** Writes what is ready. Rejects if something before could not be written. */
    grow,
    /** Resolves when everything is on disk, under the unfinished name. */
    finish: async () => {
      await grow(true);
      stream.end();
      await written;
      return { table: file.table, path, rows: file.rows(), bytes, sha256: sha256.digest('hex') };
    },
    publish: (): Promise<void> => rename(unfinishedName(place), place),
    /** Removes the file, finished or not. If that fails, the next export removes it. */
    discard: async (): Promise<void> => {
      stream.destroy();
      await written.catch(() => undefined);
      await rm(unfinishedName(place), { force: true }).catch(() => undefined);
    },
  };
}

export type Part = Awaited<ReturnType<typeof beginPart>>;
/** A finished file, as the manifest names it. */
export type PartFile = Awaited<ReturnType<Part['finish']>>;

/** Turns a failure of the system into an error that says what the operator can do. */
export async function explained<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw outputError(error, named(path));
  }
}
