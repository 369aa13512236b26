import { ok as assert } from 'node:assert/strict';
import type { BlockEntry } from '../../port/RangeStore.js';
import { BlockEntryWriter } from '../../records/blocks/BlockEntryWriter.js';
import type { PostgresDatabase } from '../connection/PostgresDatabase.js';
import type { Session, WriteSession } from '../connection/Session.js';
import { BlockRows } from '../tables/BlockRows.js';
import { partitionMaker } from '../tables/prepareDatabase.js';
import type { Script, Scripts } from '../tables/Scripts.js';
import type { Fence } from './takeFence.js';
import { noteProofs } from './changeRows.js';

/** What a line writes with; the lines of a store share scripts. */
export interface LineParts {
  readonly database: PostgresDatabase;
  readonly fence: Fence;
  readonly scripts: Scripts;
}

/** Writes the blocks of one run of heights. */
export class BlockLine {
  readonly #parts: LineParts;
  readonly #entryWriter = new BlockEntryWriter();
  /**
   * Scripts that commits of this line have stored, and partitions that it has seen. What others have stored may be gone where a
   * copy that is behind, or a new store, took the database's place; if commits of this line are gone, its fence fails, and it ends.
   */
  readonly #storedScripts = new WeakSet<Script>();
  readonly #makePartitions: ReturnType<typeof partitionMaker>;
  /** Rows of the next commit, prepared in advance. */
  #staged: BlockRows | undefined;
  /** The emptied rows of an earlier commit, for reuse. */
  #spare: BlockRows | undefined;
  #writing: Promise<unknown> | undefined;
  /** The failed write: nothing is written after it. */
  #failure: { readonly error: unknown } | undefined;
  #isClosed = false;
  /** The store is known to have proofs. */
  #hasProofs = false;

  constructor(parts: LineParts) {
    this.#parts = parts;
    this.#makePartitions = partitionMaker(parts.database);
  }

  stage(entry: BlockEntry): void {
    if (this.#failure !== undefined || this.#isClosed) return;
    this.#staged ??= this.#newRows();
    this.#staged.add(entry);
  }

  /** `write`: what becomes durable with the blocks. `isGone`: see `Fence`. Rejects as `RangeStore.commit`. */
  commit<T>(
    entries: readonly BlockEntry[],
    write: (session: WriteSession) => Promise<T>,
    isGone?: (session: Session) => Promise<boolean>,
  ): Promise<T> {
    const blocks = entries.map(({ block }) => block);
    return this.#alone(async () => {
      const rows = this.#takeRows(entries);
      const steps = rows.steps();
      await this.#makePartitions(blocks.map(({ height }) => height));
      const result = await this.#parts.fence.write(async (session) => {
        for (const step of steps) session.later(step);
        noteProofs(session, blocks, { hasProofs: this.#hasProofs });
        return write(session);
      }, isGone);
      this.#hasProofs ||= blocks.some(({ proof }) => proof !== undefined);
      rows.stored();
      this.#spare = rows;
      return result;
    });
  }

  /** One write of something else; nothing of what was staged is in the next one. See `Fence.write`. */
  write<T>(work: (session: WriteSession) => Promise<T>): Promise<T> {
    this.#staged = undefined;
    return this.#alone(() => this.#parts.fence.write(work));
  }

  /** Runs a write. After one that failed for good, every further one rejects with its error. */
  async #alone<T>(action: () => Promise<T>): Promise<T> {
    this.assertIdle();
    if (this.#failure !== undefined) throw this.#failure.error;
    const writing = action();
    this.#writing = writing;
    try {
      return await writing;
    } catch (error) {
      this.#failure = { error };
      throw error;
    } finally {
      this.#writing = undefined;
    }
  }

  /** Refuses further writes and waits for the current one. */
  async end(): Promise<void> {
    this.#isClosed = true;
    // Its caller gets the error.
    await this.#writing?.catch(() => undefined);
  }

  #newRows(): BlockRows {
    const spare = this.#spare;
    this.#spare = undefined;
    const { scripts } = this.#parts;
    return spare ?? new BlockRows({ scripts, stored: this.#storedScripts, writer: this.#entryWriter });
  }

  /** Throws while a write is under way, and after `end`. */
  assertIdle(): void {
    assert(this.#writing === undefined, 'a write is under way already');
    assert(!this.#isClosed, 'the store is closed');
  }

  /** The rows of these blocks: the staged ones, unless they hold blocks that this batch does not carry, and the others. */
  #takeRows(blocks: readonly BlockEntry[]): BlockRows {
    const staged = this.#staged;
    this.#staged = undefined;
    const carried = new Set(blocks);
    const isUsable = staged !== undefined && [...staged.entries].every((entry) => carried.has(entry));
    const rows = isUsable ? staged : this.#newRows();
    for (const entry of blocks) rows.add(entry);
    return rows;
  }
}
