import { ok as assert } from 'node:assert/strict';
import type { BlockEntry } from '../../port/RangeStore.js';
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
  readonly #makePartitions: ReturnType<typeof partitionMaker>;
  /** Rows of the next commit, prepared in advance, and those of the one under way. */
  #rows: readonly [staged: BlockRows, current: BlockRows];
  #writing: Promise<unknown> | undefined;
  /** The failed write: nothing is written after it. */
  #failure: { readonly error: unknown } | undefined;
  #isClosed = false;
  /** The store is known to have proofs. */
  #hasProofs = false;

  constructor(parts: LineParts) {
    this.#parts = parts;
    // Each line knows by itself which scripts it has stored, and which partitions there are. What others have stored may be gone
    // where a copy that is behind, or a new store, took the database's place; if commits of this line are gone, its fence fails.
    this.#makePartitions = partitionMaker(parts.database);
    const stored = new WeakSet<Script>();
    this.#rows = [new BlockRows(parts.scripts, stored), new BlockRows(parts.scripts, stored)];
  }

  stage(entry: BlockEntry): void {
    if (this.#failure === undefined && !this.#isClosed) this.#rows[0].add(entry);
  }

  /** `write`: what becomes durable with the blocks. `isGone`: see `Fence`. Rejects as `RangeStore.commit`. */
  commit(
    entries: readonly BlockEntry[],
    write: (session: WriteSession) => Promise<void>,
    isGone?: (session: Session) => Promise<boolean>,
  ): Promise<void> {
    const blocks = entries.map(({ block }) => block);
    return this.#alone(async () => {
      const [rows, emptied] = this.#rows;
      this.#rows = [emptied, rows];
      const carried = new Set(entries);
      if (![...rows.entries].every((entry) => carried.has(entry))) rows.clear();
      for (const entry of entries) rows.add(entry);
      const steps = rows.steps();
      await this.#makePartitions(blocks.map(({ height }) => height));
      await this.#parts.fence.write(async (session) => {
        for (const step of steps) session.later(step);
        noteProofs(session, blocks, { hasProofs: this.#hasProofs });
        await write(session);
      }, isGone);
      this.#hasProofs ||= blocks.some(({ proof }) => proof !== undefined);
      rows.stored();
    });
  }

  /** One write of something else; nothing of what was staged is in the next one. See `Fence.write`. */
  write(work: (session: WriteSession) => Promise<void>): Promise<void> {
    this.#rows[0].clear();
    return this.#alone(() => this.#parts.fence.write(work));
  }

  /** Runs a write. After one that failed for good, every further one rejects with its error. */
  async #alone(action: () => Promise<void>): Promise<void> {
    this.assertIdle();
    if (this.#failure !== undefined) throw this.#failure.error;
    const writing = action();
    this.#writing = writing;
    try {
      await writing;
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

  /** Throws while a write is under way, and after `end`. */
  assertIdle(): void {
    assert(this.#writing === undefined, 'a write is under way already');
    assert(!this.#isClosed, 'the store is closed');
  }
}
