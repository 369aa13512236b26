import { open, readFile } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { named, OperatorError, outputError } from '../../../runtime/index.js';
import { objectOf } from '../source/blockLine.js';
import { lockFile } from '../source/exportLock.js';
import { replaceFile, unlessMissing } from '../source/replaceFile.js';
import { BlockLocator } from './BlockLocator.js';
import type { BlockRef } from './BlockLocator.js';

const FORMAT = 1;

/** The content of the file. */
interface Saved {
  readonly format: number;
  readonly chain_id: string;
  /** Newest first. */
  readonly done: readonly BlockRef[];
  /** The process of the program that was started last. */
  readonly program_pid: number | null;
}

interface Lock {
  readonly handle: FileHandle;
  readonly unlock: () => void;
}

/**
 * Records in a file what a program has acknowledged. Each write replaces the file as a whole and syncs it; when states come
 * faster than they can be written, only the newest is. Expected errors of every method: OperatorError `storage`.
 */
export class CursorFile {
  readonly locator: BlockLocator;
  /** The process of the previous export's program, which may still run. */
  readonly previousPid: number | undefined;
  readonly #path: string;
  readonly #chainId: string;
  readonly #lock: Lock;
  #pid: number | null = null;
  #writing: Promise<void> | undefined;
  #isStale = false;

  private constructor(path: string, chainId: string, lock: Lock, saved?: Saved) {
    this.#path = path;
    this.#chainId = chainId;
    this.#lock = lock;
    this.locator = new BlockLocator(saved?.done);
    this.previousPid = saved?.program_pid ?? undefined;
  }

  /**
   * Opens or creates the file, and locks it. Expected errors: also OperatorError `usage` (not our file), `foreign` (another
   * chain).
   */
  static async open(path: string, chainId: string): Promise<CursorFile> {
    const name = named(path);
    // The lock is on a file beside it: the file itself is replaced.
    const handle = await open(`${path}.lock`, 'a').catch(failed(name));
    let unlock = (): void => undefined;
    try {
      const takenMessage = `Another export uses ${name}. Wait until it ends, or name another file with --state.`;
      unlock = await lockFile(handle, takenMessage);
      const text = await readFile(path, 'utf8').catch(unlessMissing).catch(failed(name));
      const saved = text === undefined ? undefined : savedIn(text, name);
      if (saved !== undefined && saved.chain_id !== chainId) {
        const message = `${name} records an export of ${saved.chain_id}, but the index is of ${chainId}. Name another file with --state.`;
        throw new OperatorError('foreign', message);
      }
      return new CursorFile(path, chainId, { handle, unlock }, saved);
    } catch (error) {
      unlock();
      await handle.close();
      throw error;
    }
  }

  /** Records the process of the program. Resolves once that is on disk. */
  async begin(pid: number): Promise<void> {
    this.#pid = pid;
    await this.save();
  }

  /** Resolves when the current state is on disk. */
  save(): Promise<void> {
    this.#isStale = true;
    this.#writing ??= this.#write().finally(() => (this.#writing = undefined));
    return this.#writing;
  }

  async close(): Promise<void> {
    try {
      await this.#writing;
    } finally {
      this.#lock.unlock();
      await this.#lock.handle.close();
    }
  }

  async #write(): Promise<void> {
    while (this.#isStale) {
      this.#isStale = false;
      const saved: Saved = {
        ...{ format: FORMAT, chain_id: this.#chainId },
        ...{ done: this.locator.blocks, program_pid: this.#pid },
      };
      await replaceFile(this.#path, `${JSON.stringify(saved)}\n`).catch(failed(named(this.#path)));
    }
  }
}

function failed(name: string): (error: unknown) => never {
  return (error) => {
    throw outputError(error, name);
  };
}

function savedIn(text: string, name: string): Saved {
  const saved = objectOf(text) as Partial<Saved>;
  if (saved.format === FORMAT && typeof saved.chain_id === 'string' && Array.isArray(saved.done)) {
    return saved as Saved;
  }
  throw new OperatorError(
    'usage',
    `The file ${name} does not record an export. Name another one with --state.`,
  );
}
