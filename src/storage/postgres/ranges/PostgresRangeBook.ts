import { ok as assert } from 'node:assert/strict';
import type { BackfillPlan, OpenRange, RangeBook, RangeChange } from '../../port/RangeBook.js';
import type { RangeStore } from '../../port/RangeStore.js';
import type { HeightRange } from '../../port/stored.js';
import { newRange, openAt, withOpen, withRangeChange } from '../../records/book/changeBook.js';
import { coverageOfBook, openRangesOf } from '../../records/book/StoreBook.js';
import type { LineState, OpenState } from '../../records/book/StoreBook.js';
import { contains } from '../../records/heightRanges.js';
import type { Session } from '../connection/Session.js';
import { bookOf, rangesOf, readBook, writeBook } from '../tables/bookRows.js';
import { lockStore, readHeads, readRanges } from '../tables/readState.js';
import { Fence } from '../writing/Fence.js';
import { PostgresRange } from './PostgresRange.js';
import type { RangeParts, RunHooks } from './PostgresRange.js';

/** What the database holds of ranges. */
export interface RangeFacts {
  /** Ascending; the last one is the live range, which may be empty. None: the store was never initialised. */
  readonly coverage: readonly HeightRange[];
  readonly open: readonly OpenRange[];
  readonly plans: readonly BackfillPlan[];
}

/** No other process changes plans and ranges before it ends. */
interface BookTransaction extends RangeFacts {
  readonly session: Session;
  readonly write: (change: RangeChange) => Promise<void>;
}

/** The ranges of a store that several processes fill: each change is based on what the database holds. */
export class PostgresRangeBook implements RangeBook {
  readonly #parts: RangeParts;
  /** By first height. */
  readonly #runs = new Map<number, PostgresRange>();

  constructor(parts: RangeParts) {
    this.#parts = parts;
  }

  plans(): readonly BackfillPlan[] {
    return this.#parts.book()?.plans ?? [];
  }

  open(): readonly OpenRange[] {
    return openRangesOf(this.#parts.book());
  }

  async change(change: RangeChange): Promise<void> {
    for (const { from } of change.dropped ?? []) await this.#endRun(from);
    await this.transact((transaction) => transaction.write(change));
  }

  /** One snapshot at a time, in order: an older one must not replace a newer one. Expected errors: `StorageError`. */
  read(): Promise<RangeFacts> {
    const { adopt, database, inTurn } = this.#parts;
    return inTurn(async () => {
      const facts = await database.snapshot(readRanges);
      const { open, plans } = bookOf(facts, []);
      adopt({ open, plans });
      return facts;
    });
  }

  /**
   * Atomic, and durable on return. Retried while the database is unreachable, so `work` may run more than once, even after
   * an attempt that was committed. Expected errors: `StorageError`; those of `work`.
   */
  async transact<T>(work: (transaction: BookTransaction) => Promise<T>): Promise<T> {
    const { database } = this.#parts;
    const result = await database.persist(() =>
      database.transaction(async (session) => {
        await lockStore(session);
        const book = await readBook(session);
        return work({
          session,
          coverage: rangesOf(book),
          open: openRangesOf(book),
          plans: book.plans,
          write: (change) => writeBook(session, book, withRangeChange(book, change)),
        });
      }),
    );
    await database.persist(() => this.read());
    return result;
  }

  /** Expected errors: `RangeTakenError`. Writes of a run that was replaced reject with `RangeLostError`. */
  async run(range: HeightRange, hooks: RunHooks = {}): Promise<RangeStore> {
    const { from } = range;
    await this.#endRun(from);
    const { adopt, book: known, database } = this.#parts;
    const { below, fence, line, open } = await database.persist(() =>
      database.transaction(async (session) => {
        await lockStore(session);
        const book = await readBook(session);
        if (openAt(book, range) === undefined)
          await writeBook(session, book, withOpen(book, newRange(book, range)));
        const taken = await Fence.take(database, session, { table: 'open_range', fromHeight: from });
        // Read anew: until here, the previous writer may have gone on.
        const found = openAt(await readBook(session), range);
        assert(found !== undefined, 'the range is open');
        const isBordered = contains(coverageOfBook(book), from - 1);
        const [head] = isBordered ? await readHeads(session, from - 1, from - 1) : [];
        return { fence: taken, open: found, line: await lineOf(session, found.record), below: head };
      }),
    );
    await database.persist(() => this.read());
    const run = new PostgresRange({ ...open, line }, below, {
      ...this.#parts,
      hooks,
      fence,
      onProgress: (next) => {
        const counts = { epoch: fence.epoch, commits: fence.commits };
        const moved = (each: OpenState): OpenState =>
          each.record.from === from ? { ...each, record: { ...each.record, next }, counts } : each;
        adopt({ open: known()?.open.map(moved) ?? [] });
      },
      onPublished: (book) => {
        this.#runs.delete(from);
        adopt(book);
      },
    });
    this.#runs.set(from, run);
    return run;
  }

  release(run: RangeStore): void {
    for (const [from, each] of this.#runs) if (each === run) void this.#endRun(from);
  }

  /** Ends the runs of all ranges, and waits for their writes under way. */
  async endRuns(): Promise<void> {
    await Promise.all([...this.#runs.keys()].map((from) => this.#endRun(from)));
  }

  async #endRun(from: number): Promise<void> {
    const run = this.#runs.get(from);
    // At once: another run of the range may begin while this one ends.
    this.#runs.delete(from);
    await run?.end();
  }
}

/** What is durable of an open range. */
async function lineOf(session: Session, { from, to, next }: OpenState['record']): Promise<LineState> {
  const heads = await readHeads(session, from, to);
  const above = heads.filter(({ height }) => height >= next).map((head) => [head.height, head] as const);
  const latestBlock = heads.find(({ height }) => height === next - 1);
  return { latestIndexedHeight: next - 1, latestBlock, above: new Map(above), damaged: false };
}
