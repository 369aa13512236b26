import { ok as assert } from 'node:assert/strict';
import type { OpenRange, RangeChange } from '../../port/RangeBook.js';
import type { RangeStore, BlockEntry, CommitBatch } from '../../port/RangeStore.js';
import type { HeightRange, BlockHead } from '../../port/stored.js';
import {
  newRange,
  openAt,
  withOpen,
  withRangeChange,
  openAfter,
  stateOfOpen,
} from '../../records/book/changeBook.js';
import { applyCommit } from '../../records/book/applyCommit.js';
import { coverageOfBook } from '../../records/book/StoreBook.js';
import type { LineState, OpenState, StoreBook, StoreState } from '../../records/book/StoreBook.js';
import { contains } from '../../records/heightRanges.js';
import type { Session, WriteSession } from '../connection/Session.js';
import {
  bookOf,
  deleteBlocks,
  lockStore,
  readBook,
  readHeads,
  readRows,
  writeBook,
} from '../tables/bookRows.js';
import type { BookRows } from '../tables/bookRows.js';
import { Fence } from '../writing/Fence.js';
import { RangeLostError } from '../../StorageError.js';
import { RangeReader } from '../../records/reading/RangeReader.js';
import { RunBook } from '../../records/RunBook.js';
import type { RecordReader } from '../../records/reading/RecordReader.js';
import { BlockLine, type LineParts } from '../writing/BlockLine.js';
import { checkBordersOf, publish } from '../writing/changeRows.js';

/** What the database holds of ranges. */
export type RangeFacts = Pick<BookRows, 'coverage' | 'plans'> & { readonly open: readonly OpenRange[] };

/** No other process changes plans and ranges before it ends. */
interface BookTransaction extends RangeFacts {
  readonly session: Session;
  readonly write: (change: RangeChange) => Promise<void>;
}

/** The ranges of a store that several processes fill: each change is based on what the database holds. */
export class PostgresRangeBook extends RunBook<PostgresRange> {
  readonly #parts: RangeParts;

  constructor(parts: RangeParts) {
    super(parts.book);
    this.#parts = parts;
  }

  async change(change: RangeChange): Promise<void> {
    for (const { from } of change.dropped ?? []) await this.endRun(from);
    await this.transact((transaction) => transaction.write(change));
  }

  /** Open ranges as the database has them; those that this process fills are further than it was when it read them. */
  known(read: StoreBook['open']): StoreBook['open'] {
    return read.map((each) => {
      const run = this.runs.get(each.record.from);
      return run === undefined ? each : { ...each, record: { ...each.record, next: run.next } };
    });
  }

  /** One read at a time, in order: an older one must not replace a newer one. Expected errors: `StorageError`. */
  read(): Promise<RangeFacts> {
    const { adopt, database, inTurn } = this.#parts;
    return inTurn(async () => {
      const rows = await readRows(database);
      const { open, plans } = bookOf(rows);
      adopt({ open, plans });
      return rows;
    });
  }

  /**
   * Atomic, and durable on return. Retried while the database is unreachable, so `work` may run more than once, even after
   * an attempt that was committed, whose result is `tried`. Expected errors: `StorageError`; those of `work`.
   */
  transact<T>(work: (transaction: BookTransaction, tried: T | undefined) => Promise<T>): Promise<T> {
    return this.#locked<T>((session, rows, tried) => {
      const book = bookOf(rows);
      const write = (change: RangeChange) => writeBook(session, book, withRangeChange(book, change));
      return work({ ...rows, session, write }, tried);
    });
  }

  /** Expected errors: `RangeTakenError`. Writes of a run that was replaced reject with `RangeLostError`. */
  async run(range: HeightRange, hooks: RunHooks = {}): Promise<RangeStore> {
    const { from } = range;
    await this.endRun(from);
    const { below, fence, line, open } = await this.#locked(async (session, rows) => {
      const book = bookOf(rows);
      if (openAt(book, range) === undefined)
        await writeBook(session, book, withOpen(book, newRange(book, range)));
      const { database } = this.#parts;
      const taken = await Fence.take(database, session, from);
      // Read anew: until here, the previous writer may have gone on.
      const found = openAt(await readBook(session), range);
      assert(found !== undefined, 'the range is open');
      const isBordered = contains(coverageOfBook(book), from - 1);
      const [head] = isBordered ? await readHeads(session, from - 1, from - 1) : [];
      const state = await lineOf(session, found.record);
      // Rows of other heights are of blocks that were damaged, and were back too late: in a partition that was away, or from a copy.
      await deleteBlocks(session, found.record.next, range.to, [...state.above.keys()]);
      return { fence: taken, open: found, line: state, below: head };
    });
    const run = new PostgresRange({ ...open, line }, below, { ...this.#parts, hooks, fence });
    this.runs.set(from, run);
    return run;
  }

  /** Works on the book while no other process changes it, and takes over what the database says afterwards. */
  async #locked<T>(
    work: (session: WriteSession, rows: BookRows, tried: T | undefined) => Promise<T>,
  ): Promise<T> {
    const { database } = this.#parts;
    let tried: T | undefined;
    const result = await database.write(async (session) => {
      await lockStore(session);
      return (tried = await work(session, await readRows(session), tried));
    });
    await database.persist(() => this.read());
    return result;
  }
}

/** What is durable of an open range. */
async function lineOf(session: Session, { from, to, next }: OpenState['record']): Promise<LineState> {
  const heads = await readHeads(session, from, to);
  const above = heads.filter(({ height }) => height >= next).map((head) => [head.height, head] as const);
  const latestBlock = heads.find(({ height }) => height === next - 1);
  return { latestIndexedHeight: next - 1, latestBlock, above: new Map(above), damage: undefined };
}

export interface RunHooks {
  /** Runs in the transaction that publishes the range; its error rolls the transaction back. */
  readonly publishing?: (session: Session) => Promise<void>;
  /** Called before a write rejects with `RangeLostError`. */
  readonly onLost?: () => void;
}

/** What the ranges of a store use of it. */
export interface RangeParts extends Pick<LineParts, 'database' | 'scripts'> {
  readonly reader: RecordReader;
  /** `undefined` for a store that was never initialised. */
  readonly book: () => StoreBook | undefined;
  /** Takes over what the database says of the ranges, and how far the runs of this process are. */
  readonly adopt: (ranges: Partial<StoreBook>) => void;
  /** One publication at a time. */
  readonly inTurn: <T>(action: () => Promise<T>) => Promise<T>;
}

/** An open range that is being filled. */
class PostgresRange extends RangeReader implements RangeStore {
  readonly #line: BlockLine;
  readonly #parts: ConstructorParameters<typeof PostgresRange>[2];
  #open: OpenState;
  #isPublished = false;
  /** Another run has taken over. */
  #isEnded = false;

  constructor(
    open: OpenState,
    below: BlockHead | undefined,
    parts: RangeParts & { readonly fence: Fence; readonly hooks: RunHooks },
  ) {
    super(open.record, below, parts.reader);
    this.#open = open;
    this.#line = new BlockLine(parts);
    this.#parts = parts;
  }

  /** Its lowest height that is not durable. */
  get next(): number {
    return this.#open.line.latestIndexedHeight + 1;
  }

  state(): StoreState {
    return stateOfOpen(this.#book(), this.#open);
  }

  stage(entry: BlockEntry): void {
    this.#line.stage(entry);
  }

  async commit(batch: CommitBatch): Promise<void> {
    assert(!this.#isPublished, 'the range is published');
    const { isWhole } = this.extentOf(batch);
    // The range is published with it.
    await (isWhole ? this.#parts.inTurn(() => this.#commit(batch)) : this.#commit(batch));
  }

  async #commit(batch: CommitBatch): Promise<void> {
    const { range } = this;
    const { adopt, hooks } = this.#parts;
    const { isAtBorder, isWhole } = this.extentOf(batch);
    const next = applyCommit(this.state(), batch);
    const write = async (session: WriteSession): Promise<StoreBook | undefined> => {
      const { sporks } = openAfter(this.#book(), this.#open, next).record;
      if (isWhole) {
        const book = await publish(session, range, sporks);
        await hooks.publishing?.(session);
        return book;
      }
      if (isAtBorder) await checkBordersOf(session, range, next.meta);
      session.later({
        name: 'range_progress',
        text: 'UPDATE flow_store.open_range SET next_height = $2, sporks = $3 WHERE from_height = $1',
        values: [range.from, next.latestIndexedHeight + 1, JSON.stringify(sporks)],
      });
      return undefined;
    };
    const isGone = async (session: Session): Promise<boolean> =>
      isWhole &&
      (await readRows(session)).coverage.some(({ from, to }) => from <= range.from && to >= range.to);
    const published = await this.#reportingLoss(() => this.#line.commit(batch.blocks, write, isGone));
    this.#open = openAfter(this.#book(), this.#open, next);
    this.#isPublished = isWhole;
    adopt(published ?? {});
  }

  async forgetAbove(): Promise<void> {
    const { above, latestIndexedHeight } = this.#open.line;
    if (this.#isEnded || above.size === 0) return;
    await this.#reportingLoss(() =>
      this.#line.write((session) => deleteBlocks(session, latestIndexedHeight + 1, this.range.to)),
    );
    this.#open = { ...this.#open, line: { ...this.#open.line, above: new Map() } };
  }

  /** The run is over: its range is dropped, or another run takes over. Waits for the write under way. */
  end(): Promise<void> {
    this.#isEnded = true;
    return this.#line.end();
  }

  /** Calls `onLost` when the range turns out to be lost. */
  async #reportingLoss<T>(write: () => Promise<T>): Promise<T> {
    try {
      // This process lost the range and took it again: the indexing line of this run may not know yet.
      if (this.#isEnded) throw new RangeLostError(this.#parts.database.place);
      return await write();
    } catch (error) {
      if (error instanceof RangeLostError) this.#parts.hooks.onLost?.();
      throw error;
    }
  }

  #book(): StoreBook {
    const book = this.#parts.book();
    assert(book !== undefined, 'the store is not initialised');
    return book;
  }
}
