import { open } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { isReaderGone, named, OperatorError, outputError } from '../../../runtime/index.js';
import type { Terminal } from '../../command.js';
import { lockFile } from '../source/exportLock.js';
import type { ExportProgress } from '../source/exportProgress.js';
import { NotAnExportError } from '../source/NotAnExportError.js';
import { ExportTally } from './ExportTally.js';

/** How much of a resumed file is read at once. */
const READ_BYTES = 1024 * 1024;

/** Where the lines go. */
export interface ExportOutput {
  /** What it holds so far. */
  readonly tally: ExportTally;
  /** Cuts off what follows the last whole block. Expected errors: OperatorError (`storage`). */
  cutToWhole(): Promise<void>;
  /** False: the reader has gone. Expected errors: OperatorError (`storage`). */
  write(bytes: Uint8Array): Promise<boolean>;
  /** Resolves when everything is on disk. Expected errors: OperatorError (`storage`). */
  close(): Promise<void>;
}

export function standardOutput(terminal: Terminal): ExportOutput {
  return {
    tally: new ExportTally(),
    cutToWhole: () => Promise.resolve(),
    write: (bytes) => terminal.write(bytes),
    close: () => Promise.resolve(),
  };
}

/**
 * Opens and locks a file, creating it if needed. With `resume` it is read to its end, but not changed yet.
 * Expected errors: OperatorError (`usage`: it cannot be resumed, or is not empty; `storage`); the signal's abort
 * reason.
 */
export async function fileOutput(
  path: string,
  parts: { readonly resume: boolean; readonly signal: AbortSignal; readonly progress: ExportProgress },
): Promise<ExportOutput> {
  const name = named(path);
  const explained = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      throw outputError(error, name);
    }
  };
  const handle = await explained(open(path, parts.resume ? 'a+' : 'a'));
  const about = await handle.stat();
  let unlock = (): void => undefined;
  const close = async (): Promise<void> => {
    try {
      if (about.isFile()) await explained(handle.sync());
    } finally {
      await handle.close();
      unlock();
    }
  };
  try {
    const takenMessage = `Another export writes to ${name}. Wait until it ends, or choose another file.`;
    if (about.isFile()) unlock = await lockFile(handle, takenMessage);
    if (parts.resume && !about.isFile()) {
      throw new OperatorError('usage', `${name} is not a regular file: leave --resume out.`);
    }
    if (!parts.resume && about.isFile() && about.size > 0) {
      const message = `The file ${name} is not empty. Add --resume to continue it, or choose another one.`;
      throw new OperatorError('usage', message);
    }
    const tally = new ExportTally();
    if (parts.resume) await explained(readAll(handle, tally, parts));
    return {
      tally,
      cutToWhole: async () => {
        if (about.isFile()) await explained(handle.truncate(tally.whole.bytes));
        tally.cutToWhole();
      },
      write: async (bytes) => {
        try {
          await handle.appendFile(bytes);
          return true;
        } catch (error) {
          if (isReaderGone(error)) return false;
          throw outputError(error, name);
        }
      },
      close,
    };
  } catch (error) {
    await close();
    if (!(error instanceof NotAnExportError)) throw error;
    const message = `The file ${name} cannot be resumed, because it is not an export: ${error.message}. Choose another one.`;
    throw new OperatorError('usage', message, { cause: error });
  }
}

async function readAll(
  handle: FileHandle,
  tally: ExportTally,
  { signal, progress }: { readonly signal: AbortSignal; readonly progress: ExportProgress },
): Promise<void> {
  const { size } = await handle.stat();
  for (let position = 0; ;) {
    signal.throwIfAborted();
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(READ_BYTES), 0, READ_BYTES, position);
    if (bytesRead === 0) return;
    tally.add(buffer.subarray(0, bytesRead));
    position += bytesRead;
    progress.scanned(position / size);
  }
}
