import { ok as assert } from 'node:assert/strict';
import type { BlockEntry } from '../../port/RangeStore.js';
import type { PostgresDatabase } from '../connection/PostgresDatabase.js';
import type { Session, WriteSession } from '../connection/Session.js';
import { blockRows } from '../tables/blockRows.js';
import { partitionMaker } from '../tables/prepareDatabase.js';
import type { Script, ScriptAt } from '../tables/scriptsSeen.js';
import type { Fence } from './takeFence.js';
import { noteProofs } from './changeRows.js';

/** What a line writes with; the lines of a store share scripts. */
export interface LineParts {
  readonly database: PostgresDatabase;
  readonly fence: Fence;
  readonly scriptAt: ScriptAt;
}

export type BlockLine = ReturnType<typeof blockLine>;

/** Writes the blocks of one run of heights. */
export function blockLine({ database, fence, scriptAt }: LineParts) {
  // Each line records only which scripts it has stored itself, and which partitions exist. What other lines stored may be gone
  // where an older copy, or a new store, took the database's place; if commits of this line are gone, its fence fails.
  const stored = new WeakSet<Script>();
  const makePartitions = partitionMaker(database);
  /** Of the next commit, prepared in advance, and of the one under way. */
  let [staged, current] = [blockRows(scriptAt, stored), blockRows(scriptAt, stored)];
  let hasProofs = false;
  let writing: Promise<unknown> | undefined;
  /** The failed write: nothing is written after it. */
  let failure: { readonly error: unknown } | undefined;
  let isClosed = false;

  /** Throws while a write is under way, and after `end`. */
  const assertIdle = (): void => {
    assert(writing === undefined, 'a write is under way already');
    assert(!isClosed, 'the store is closed');
  };
  /** Runs a write. After one that failed, every further one rejects with its error. */
  const alone = async (action: () => Promise<void>): Promise<void> => {
    assertIdle();
    if (failure !== undefined) throw failure.error;
    try {
      await (writing = action());
    } catch (error) {
      failure = { error };
      throw error;
    } finally {
      writing = undefined;
    }
  };
  return {
    assertIdle,
    stage: (entry: BlockEntry): void => {
      if (failure === undefined && !isClosed) staged.add(entry);
    },
    /** `write`: what becomes durable with the blocks. `isGone`: see `takeFence`. Rejects as `RangeStore.commit`. */
    commit: (
      entries: readonly BlockEntry[],
      write: (session: WriteSession) => Promise<void>,
      isGone?: (session: Session) => Promise<boolean>,
    ): Promise<void> =>
      alone(async () => {
        const blocks = entries.map(({ block }) => block);
        const rows = staged;
        [staged, current] = [current, rows];
        const carried = new Set(entries);
        if (![...rows.entries].every((entry) => carried.has(entry))) rows.clear();
        for (const entry of entries) rows.add(entry);
        const steps = rows.steps();
        await makePartitions(blocks.map(({ height }) => height));
        await fence.write(async (session) => {
          for (const step of steps) session.later(step);
          noteProofs(session, blocks, { hasProofs });
          await write(session);
        }, isGone);
        hasProofs ||= blocks.some(({ proof }) => proof !== undefined);
        rows.stored();
      }),
    /** One write without blocks; discards what was staged. See `takeFence`. */
    write: (work: (session: WriteSession) => Promise<void>): Promise<void> => {
      staged.clear();
      return alone(() => fence.write(work));
    },
    /** Refuses further writes and waits for the current one. */
    end: async (): Promise<void> => {
      isClosed = true;
      // Its caller gets the error.
      await writing?.catch(() => undefined);
    },
  };
}
