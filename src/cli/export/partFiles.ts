import { createHash } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { createServer } from 'node:net';
import { basename, dirname, join } from 'node:path';
import type { Transform } from 'node:stream';
import { named, OperatorError, outputError } from '../../runtime/index.js';
import { syncDirectory } from '../../storage/index.js';

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

/**
 * Begins a file, replacing an unfinished one of the same name; it gets its name once it is complete and on disk. Everything written
 * goes through `stream`. Expected errors, also of what it returns: OperatorError `storage`.
 */
export async function beginPart(path: string, stream: Transform | undefined) {
  const handle = await explained(path, () => open(unfinishedName(path), 'w'));
  /** Output of the stream that is not written yet. */
  const compressed: Buffer[] = [];
  const sha256 = createHash('sha256');
  /** Compresses and writes the last piece while the caller makes the next one. */
  let writing: Promise<void> = Promise.resolve();
  let written = 0;
  stream?.on('data', (bytes: Buffer) => compressed.push(bytes));

  const put = async (bytes: Uint8Array): Promise<void> => {
    sha256.update(bytes);
    written += bytes.length;
    await explained(path, () => handle.appendFile(bytes));
  };
  const putCompressed = async (): Promise<void> => {
    for (const bytes of compressed.splice(0)) await put(bytes);
  };
  const compress = async (bytes: Uint8Array): Promise<void> => {
    if (stream === undefined) return put(bytes);
    await new Promise<void>((resolve, reject) => {
      stream.write(bytes, (error) => (error ? reject(error) : resolve()));
    });
    return putCompressed();
  };
  return {
    /** Takes bytes, which must not change any more. Resolves or rejects with the outcome of the previous write. */
    write: async (bytes: Uint8Array): Promise<void> => {
      await writing;
      writing = compress(bytes);
      // The next call reports a failure.
      writing.catch(() => undefined);
    },
    /** Resolves when everything is on disk, under the unfinished name. */
    finish: async (): Promise<{ readonly bytes: number; readonly sha256: string }> => {
      await writing;
      if (stream !== undefined) {
        await new Promise<void>((resolve, reject) => {
          stream.once('end', resolve).once('error', reject).end();
        });
        await putCompressed();
      }
      await explained(path, () => handle.sync());
      await handle.close();
      return { bytes: written, sha256: sha256.digest('hex') };
    },
    /** Gives a finished file its name. */
    publish: (): Promise<void> => explained(path, () => rename(unfinishedName(path), path)),
    /** Removes the unfinished file, which may be finished already. */
    discard: async (): Promise<void> => {
      stream?.destroy();
      await writing.catch(() => undefined);
      await handle.close();
      await rm(unfinishedName(path), { force: true });
    },
  };
}

/** Turns a failure of `work` into an error that says what the operator can do. */
export async function explained<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw outputError(error, named(path));
  }
}
