import { createHash } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Transform } from 'node:stream';
import { named } from '../../../runtime/index.js';
import { outputError, writeAll } from '../../output/output.js';

/** The name of a file while it is written: no pattern for finished files matches it. */
export function unfinishedName(path: string): string {
  return join(dirname(path), `.${basename(path)}.tmp`);
}

/** A file that gets its name once it is whole and on disk. Expected errors, of all it does: OperatorError `storage`. */
export class PartFile {
  readonly #path: string;
  readonly #handle: FileHandle;
  readonly #stream: Transform | undefined;
  /** What came out of the stream and is not written yet. */
  readonly #squeezed: Buffer[] = [];
  readonly #sha256 = createHash('sha256');
  /** The last piece, while it is compressed and written: meanwhile the next one is made. */
  #inHand: Promise<void> = Promise.resolve();
  #bytes = 0;
  #isOpen = true;

  private constructor(path: string, handle: FileHandle, stream: Transform | undefined) {
    this.#path = path;
    this.#handle = handle;
    this.#stream = stream;
    stream?.on('data', (bytes: Buffer) => this.#squeezed.push(bytes));
  }

  /** Begins a file, in place of an unfinished one of the same name. What is written goes through `stream`. */
  static create(path: string, stream: Transform | undefined): Promise<PartFile> {
    return explained(path, async () => new PartFile(path, await open(unfinishedName(path), 'w'), stream));
  }

  /** Takes bytes, which must not change any more, and resolves when those before are written, or rejects if they could not be. */
  async write(bytes: Uint8Array): Promise<void> {
    await this.#inHand;
    this.#inHand = this.#squeeze(bytes);
    // The next call tells.
    this.#inHand.catch(() => undefined);
  }

  /** Resolves when everything is on disk, under the unfinished name. */
  async finish(): Promise<{ readonly bytes: number; readonly sha256: string }> {
    await this.#inHand;
    const stream = this.#stream;
    if (stream !== undefined) {
      await new Promise<void>((resolve, reject) => {
        stream.once('end', resolve).once('error', reject).end();
      });
      await this.#putSqueezed();
    }
    await explained(this.#path, () => this.#handle.sync());
    await this.#close();
    return { bytes: this.#bytes, sha256: this.#sha256.digest('hex') };
  }

  /** Gives a finished file its name. */
  publish(): Promise<void> {
    return explained(this.#path, () => rename(unfinishedName(this.#path), this.#path));
  }

  /** Removes what is not finished. */
  async discard(): Promise<void> {
    this.#stream?.destroy();
    await this.#inHand.catch(() => undefined);
    await this.#close();
    await rm(unfinishedName(this.#path), { force: true });
  }

  async #squeeze(bytes: Uint8Array): Promise<void> {
    const stream = this.#stream;
    if (stream === undefined) return this.#put(bytes);
    await new Promise<void>((resolve, reject) => {
      stream.write(bytes, (error) => (error ? reject(error) : resolve()));
    });
    return this.#putSqueezed();
  }

  async #putSqueezed(): Promise<void> {
    for (const bytes of this.#squeezed.splice(0)) await this.#put(bytes);
  }

  async #put(bytes: Uint8Array): Promise<void> {
    this.#sha256.update(bytes);
    this.#bytes += bytes.length;
    await writeAll(this.#handle.fd, bytes, named(this.#path));
  }

  async #close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#handle.close();
  }
}

/** Does something with a file and says what the operator can do when it fails. */
export async function explained<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw outputError(error, named(path));
  }
}
