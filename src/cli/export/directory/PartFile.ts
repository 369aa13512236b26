import { createHash } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import type { Transform } from 'node:stream';
import { named, outputError } from '../../../runtime/index.js';
import { unfinishedName } from '../source/replaceFile.js';

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
  #isOpen = true;

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
    await this.#close();
    return { bytes: this.#bytes, sha256: this.#sha256.digest('hex') };
  }

  /** Gives a finished file its name. */
  publish(): Promise<void> {
    return explained(this.#path, () => rename(unfinishedName(this.#path), this.#path));
  }

  /** Removes the unfinished file. */
  async discard(): Promise<void> {
    this.#stream?.destroy();
    await this.#writing.catch(() => undefined);
    await this.#close();
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

  async #close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#handle.close();
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
