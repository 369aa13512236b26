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

/** A file that gets its name once it is complete and on disk. Expected errors of every method: OperatorError `storage`. */
export class PartFile {
  readonly #path: string;
  readonly #handle: FileHandle;
  readonly #stream: Transform | undefined;
  /** Output of the stream that is not written yet. */
  readonly #compressed: Buffer[] = [];
  readonly #sha256 = createHash('sha256');
  /** Compresses and writes the last piece while the caller makes the next one. */
  #writing: Promise<void> = Promise.resolve();
  #bytes = 0;

  private constructor(path: string, handle: FileHandle, stream: Transform | undefined) {
    this.#path = path;
    this.#handle = handle;
    this.#stream = stream;
    stream?.on('data', (bytes: Buffer) => this.#compressed.push(bytes));
  }

  /** Begins a file, replacing an unfinished one of the same name. Everything written goes through `stream`. */
  static create(path: string, stream: Transform | undefined): Promise<PartFile> {
    return explained(path, async () => new PartFile(path, await open(unfinishedName(path), 'w'), stream));
  }

  /** Takes bytes, which must not change any more. Resolves or rejects with the outcome of the previous write. */
  async write(bytes: Uint8Array): Promise<void> {
    await this.#writing;
    this.#writing = this.#compress(bytes);
    // The next call reports a failure.
    this.#writing.catch(() => undefined);
  }

  /** Resolves when everything is on disk, under the unfinished name. */
  async finish(): Promise<{ readonly bytes: number; readonly sha256: string }> {
    await this.#writing;
    const stream = this.#stream;
    if (stream !== undefined) {
      await new Promise<void>((resolve, reject) => {
        stream.once('end', resolve).once('error', reject).end();
      });
      await this.#putCompressed();
    }
    await explained(this.#path, () => this.#handle.sync());
    await this.#handle.close();
    return { bytes: this.#bytes, sha256: this.#sha256.digest('hex') };
  }

  /** Gives a finished file its name. */
  publish(): Promise<void> {
    return explained(this.#path, () => rename(unfinishedName(this.#path), this.#path));
  }

  /** Removes the unfinished file, which may be finished already. */
  async discard(): Promise<void> {
    this.#stream?.destroy();
    await this.#writing.catch(() => undefined);
    await this.#handle.close();
    await rm(unfinishedName(this.#path), { force: true });
  }

  async #compress(bytes: Uint8Array): Promise<void> {
    const stream = this.#stream;
    if (stream === undefined) return this.#put(bytes);
    await new Promise<void>((resolve, reject) => {
      stream.write(bytes, (error) => (error ? reject(error) : resolve()));
    });
    return this.#putCompressed();
  }

  async #putCompressed(): Promise<void> {
    for (const bytes of this.#compressed.splice(0)) await this.#put(bytes);
  }

  async #put(bytes: Uint8Array): Promise<void> {
    this.#sha256.update(bytes);
    this.#bytes += bytes.length;
    await explained(this.#path, () => this.#handle.appendFile(bytes));
  }
}

/** Turns a failure of `work` into an error that says what the operator can do. */
export async function explained<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw outputError(error, named(path));
  }
}
