import { open } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { named, OperatorError } from '../../runtime/index.js';
import { outputError, writeAll } from '../output/output.js';
import { ExportTally, NotAnExportError } from './ExportTally.js';

/** What is read at once of a file that is continued. */
const READ_BYTES = 1024 * 1024;

/** Where the lines go. */
export interface ExportOutput {
  /** False: nobody reads any more. Expected errors: OperatorError (`storage`). */
  write(bytes: Uint8Array): Promise<boolean>;
  /** All that was written is safe. Idempotent. */
  close(): Promise<void>;
}

/**
 * A new file. One that holds something is not overwritten. Expected errors: OperatorError (`usage`, `storage`).
 */
export async function createFile(path: string): Promise<ExportOutput> {
  const handle = await opened(path, 'a');
  try {
    const about = await handle.stat();
    if (about.isFile() && about.size > 0) {
      throw new OperatorError(
        'usage',
        `The file ${named(path)} holds something already. Add --resume to go on with it, or choose another one.`,
      );
    }
    return new FileOutput(path, handle, about.isFile());
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/**
 * Reads what a file holds, to its end; one that does not exist is made, empty. Nothing of it is changed. `onProgress` is told of the bytes read so far. Expected errors: OperatorError (`usage`: it is no export; `storage`); the
 * signal's abort reason.
 */
export async function scanFile(
  path: string,
  { onProgress, signal }: { onProgress: (read: number, of: number) => void; signal: AbortSignal },
): Promise<ExportTally> {
  const tally = new ExportTally();
  const handle = await opened(path, 'a+');
  try {
    const about = await handle.stat();
    if (!about.isFile()) {
      throw new OperatorError(
        'usage',
        `${named(path)} is no file that can be continued: leave --resume out.`,
      );
    }
    const buffer = Buffer.allocUnsafe(READ_BYTES);
    for (let position = 0; ;) {
      signal.throwIfAborted();
      const { bytesRead } = await handle.read(buffer, 0, READ_BYTES, position);
      if (bytesRead === 0) break;
      tally.add(buffer.subarray(0, bytesRead));
      position += bytesRead;
      onProgress(position, about.size);
    }
    return tally;
  } catch (error) {
    if (error instanceof NotAnExportError) {
      throw new OperatorError(
        'usage',
        `The file ${named(path)} cannot be continued, it is not an export: ${error.message}. Choose another one.`,
        { cause: error },
      );
    }
    throw outputError(error, named(path));
  } finally {
    await handle.close();
  }
}

/** Opens a scanned file behind its last whole block; what stands there is cut off. Expected errors: OperatorError (`storage`). */
export async function continueFile(path: string, tally: ExportTally): Promise<ExportOutput> {
  const handle = await opened(path, 'a');
  try {
    await handle.truncate(tally.wholeBytes);
    tally.cutToWhole();
    return new FileOutput(path, handle, true);
  } catch (error) {
    await handle.close();
    throw outputError(error, named(path));
  }
}

async function opened(path: string, flags: 'a' | 'a+'): Promise<FileHandle> {
  try {
    return await open(path, flags);
  } catch (error) {
    throw outputError(error, named(path));
  }
}

class FileOutput implements ExportOutput {
  readonly #path: string;
  readonly #handle: FileHandle;
  /** False for a pipe or a device. */
  readonly #isFile: boolean;
  #closing: Promise<void> | undefined;

  constructor(path: string, handle: FileHandle, isFile: boolean) {
    this.#path = path;
    this.#handle = handle;
    this.#isFile = isFile;
  }

  write(bytes: Uint8Array): Promise<boolean> {
    return writeAll(this.#handle.fd, bytes, named(this.#path));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    try {
      if (this.#isFile) await this.#handle.sync();
    } catch (error) {
      throw outputError(error, named(this.#path));
    } finally {
      await this.#handle.close();
    }
  }
}
