import { open, readFile, rename } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Server } from 'node:net';
import { named, OperatorError } from '../../../runtime/index.js';
import { syncDirectory } from '../../../storage/index.js';
import { outputError } from '../../output/output.js';
import { objectOf } from '../source/blockLine.js';
import { lockOf } from '../source/exportLock.js';
import { Ladder } from './Ladder.js';
import type { Rung } from './Ladder.js';

const FORMAT = 1;

/** What the file says. */
interface Saved {
  readonly format: number;
  readonly chain_id: string;
  /** Newest first. */
  readonly done: readonly Rung[];
  /** Of the program that was started last. */
  readonly program_pid: number | null;
}

interface Lock {
  readonly handle: FileHandle;
  readonly server: Server | undefined;
}

/**
 * What a program has acknowledged, in a file that is replaced as a whole and synced. Newer states replace those that wait to be
 * written. Expected errors, of all it does: OperatorError `storage`.
 */
export class CursorFile {
  readonly ladder: Ladder;
  /** The program of the export before, which may still run. */
  readonly programBefore: number | undefined;
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
    this.ladder = new Ladder(saved?.done);
    this.programBefore = saved?.program_pid ?? undefined;
  }

  /**
   * Opens the file, or begins one, and locks it. Expected errors: also OperatorError `usage` (no such file of ours), `foreign` (of
   * another chain).
   */
  static async open(path: string, chainId: string): Promise<CursorFile> {
    const name = named(path);
    // The lock is on a file beside it: the file itself is replaced.
    const handle = await open(`${path}.lock`, 'a').catch(failed(name));
    const server = await lockOf(await handle.stat({ bigint: true }));
    try {
      if (server === 'taken') {
        const message = `Another export keeps its place in ${name}. Wait until it ends, or name another file with --state.`;
        throw new OperatorError('storage', message);
      }
      const text = await readFile(path, 'utf8').catch(unlessMissing).catch(failed(name));
      const saved = text === undefined ? undefined : savedIn(text, name);
      if (saved !== undefined && saved.chain_id !== chainId) {
        const message = `${name} is the place in an export of ${saved.chain_id}, and the index is of ${chainId}. Name another file with --state.`;
        throw new OperatorError('foreign', message);
      }
      return new CursorFile(path, chainId, { handle, server }, saved);
    } catch (error) {
      if (server !== 'taken') server?.close();
      await handle.close();
      throw error;
    }
  }

  /** Which program is fed now. Resolves once that is on disk. */
  async begin(pid: number): Promise<void> {
    this.#pid = pid;
    await this.save();
  }

  /** Resolves when what is known now is on disk. */
  save(): Promise<void> {
    this.#isStale = true;
    this.#writing ??= this.#write().finally(() => (this.#writing = undefined));
    return this.#writing;
  }

  async close(): Promise<void> {
    try {
      await this.#writing;
    } finally {
      this.#lock.server?.close();
      await this.#lock.handle.close();
    }
  }

  async #write(): Promise<void> {
    while (this.#isStale) {
      this.#isStale = false;
      const saved: Saved = {
        ...{ format: FORMAT, chain_id: this.#chainId },
        ...{ done: this.ladder.rungs, program_pid: this.#pid },
      };
      await replaceFile(this.#path, `${JSON.stringify(saved)}\n`).catch(failed(named(this.#path)));
    }
  }
}

/** The old file or the new one is there, whatever happens. */
async function replaceFile(path: string, text: string): Promise<void> {
  const unfinished = `${path}.tmp`;
  const handle = await open(unfinished, 'w');
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(unfinished, path);
  await syncDirectory(dirname(path));
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
    `The file ${name} is not the place of an export. Name another one with --state.`,
  );
}

function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
