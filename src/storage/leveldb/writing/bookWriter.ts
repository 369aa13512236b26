import { ok as assert } from 'node:assert/strict';
import { AbortError, sleep, type Clock } from '../../../runtime/index.js';
import { putAccounts } from '../../accounts/accountEntries.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import { isLive } from '../../records/accountCoverage.js';
import { BlockEntryWriter, type Put } from '../../records/blocks/BlockEntryWriter.js';
import { putChanges } from '../../records/book/bookRecords.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import type { Database, Entry, WriteBatch } from '../../records/Database.js';

/**
 * Bytes to put into a batch before yielding to the event loop, so that readers do not wait for a group of many blocks. A
 * group at the tip, a block or two, is prepared in one go.
 */
const TURN_BYTES = 128 * 1024;

/** The result of a change. */
export interface Changed {
  readonly after: StoreBook;
  /** Further entries of the same write, and keys of those that it deletes. */
  readonly put?: readonly Entry[];
  readonly del?: readonly Buffer[];
}

/** Changes the current book; `undefined`: no change. */
export type Change = (book: StoreBook) => Changed | undefined | Promise<Changed | undefined>;

/** A batch, and the blocks whose entries are in it already, before the commit that will carry them. */
interface Staged {
  readonly batch: WriteBatch;
  readonly entries: Set<BlockEntry>;
}

/** Which range writes: the live one, which goes first, or another. */
type Line = 'live' | 'range';

export type BookWriter = ReturnType<typeof bookWriter>;

/**
 * Owns the durable book of an open store, and writes its changes: one at a time, those of the live range first, and nothing after
 * a failed write. `loaded`: `undefined` for a store that was never initialised.
 */
export function bookWriter(
  loaded: StoreBook | undefined,
  parts: {
    readonly clock: Clock;
    readonly database: Database;
    /** A new book is durable. */
    readonly onChanged: () => void;
    /** A write failed: nothing more is written. Called once. */
    readonly onFailed: (error: unknown) => void;
  },
) {
  const { clock, database, onChanged, onFailed } = parts;
  const entryWriter = new BlockEntryWriter();
  let book = loaded;
  /** Waiting writes: that of the live range first, the others in the order of their calls. */
  const waiting: { readonly line: Line; readonly run: () => Promise<void> }[] = [];
  /** All writes, one after the other. Does not reject. */
  let turns: Promise<unknown> = Promise.resolve();
  /** The beginning of the next commit of the live range. */
  let staged: Staged | undefined;
  /** Actions that make several writes. */
  const running = new Set<Promise<void>>();
  /** The failed write: what is on disk is unknown until the next open, so nothing is written on top of it. */
  let failure: { readonly error: unknown } | undefined;
  let isClosed = false;

  const initialised = (): StoreBook => {
    assert(book !== undefined, 'the store is not initialised');
    return book;
  };
  /** Takes over a book whose records were written elsewhere. */
  const replace = (after: StoreBook): void => {
    book = after;
    onChanged();
  };
  const assertOpen = (): void => {
    if (isClosed) throw new AbortError('the store is closed');
  };
  /** Runs an action when its turn comes. Rejects with its error. */
  const inTurn = async (line: Line, action: () => Promise<void>): Promise<void> => {
    assertOpen();
    assert(line !== 'live' || waiting[0]?.line !== 'live', 'a write is already under way');
    await new Promise<void>((resolve, reject) => {
      const next = { line, run: () => action().then(resolve, reject) };
      if (line === 'live') waiting.unshift(next);
      else waiting.push(next);
      turns = turns.then(() => waiting.shift()?.run());
    });
  };
  /** Runs a write. After one that failed there is no other: rejects with its error. */
  const write = async (action: () => Promise<void>): Promise<void> => {
    if (failure !== undefined) throw failure.error;
    try {
      await action();
    } catch (error) {
      failure = { error };
      onFailed(error);
      throw error;
    }
  };

  const begun = (): Staged => ({ batch: database.batch(), entries: new Set() });
  /** Puts the entries of a block into a batch, unless they are there. Returns the bytes of its collections that were put. */
  const putBlock = (entry: BlockEntry, { batch, entries }: Staged): number => {
    if (entries.has(entry)) return 0;
    entries.add(entry);
    const put: Put = (key, value) => batch.put(key, value);
    entryWriter.put(entry, put);
    if (isLive(book?.accounts)) putAccounts(entry, put);
    return entry.collections.reduce((sum, { encoded }) => sum + encoded.byteLength, 0);
  };
  const discardStaged = (): void => {
    staged?.batch[Symbol.dispose]();
    staged = undefined;
  };
  /** What is staged, unless these blocks do not include all of it: then it is discarded. */
  const takeStaged = (blocks: readonly BlockEntry[]): Staged | undefined => {
    const carried = new Set(blocks);
    for (const entry of staged?.entries ?? []) if (!carried.has(entry)) discardStaged();
    const taken = staged;
    staged = undefined;
    return taken;
  };

  return {
    database,
    book: () => book,
    initialised,
    replace,
    discardStaged,
    /** Like `RangeStore.stage`, for the live range. */
    stage: (entry: BlockEntry): void => {
      if (failure === undefined && !isClosed) putBlock(entry, (staged ??= begun()));
    },
    /**
     * Writes the blocks, and the book that `change` returns, in one write; then the new book counts. Rejects after a write that
     * failed, and with the error of `change`, in which case nothing is written.
     */
    record: async (line: Line, change: Change, blocks: readonly BlockEntry[] = []): Promise<void> => {
      const taken = line === 'live' ? takeStaged(blocks) : undefined;
      await inTurn(line, async () => {
        const filled = taken ?? begun();
        using batch = filled.batch;
        const before = initialised();
        const changed = await change(before);
        if (changed === undefined) return;
        const { after, put = [], del = [] } = changed;
        let turnBytes = 0;
        for (const entry of blocks) {
          if (turnBytes >= TURN_BYTES) {
            turnBytes = 0;
            await sleep(clock, 0);
          }
          turnBytes += putBlock(entry, filled);
        }
        putChanges(before, after, batch);
        for (const entry of put) batch.put(...entry);
        for (const key of del) batch.del(key);
        await write(() => batch.write());
        replace(after);
      });
    },
    /** Runs a separate write, of any length. Rejects with its error, and after a write that failed. */
    alone: (action: () => Promise<void>): Promise<void> => inTurn('range', () => write(action)),
    /** Runs an action of several reads and writes, such as a removal. `end` refuses its next write, and waits for it. */
    inSteps: async (action: () => Promise<void>): Promise<void> => {
      assertOpen();
      const begun = action();
      running.add(begun);
      await begun.finally(() => running.delete(begun));
    },
    /** Refuses further writes and waits for those already requested. The next open finishes what was cut short. */
    end: async (): Promise<void> => {
      isClosed = true;
      discardStaged();
      await turns;
      await Promise.allSettled(running);
    },
  };
}
