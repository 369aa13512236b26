import { ok as assert } from 'node:assert/strict';
import type { BackfillPlan, OpenRange, RangeBook, RangeChange } from '../../port/RangeBook.js';
import type { RangeStore } from '../../port/RangeStore.js';
import type { HeightRange } from '../../port/stored.js';
import { newRange, openAt, withOpen, withRangeChange } from '../../records/book/changeBook.js';
import { coverageOfBook } from '../../records/book/StoreBook.js';
import { contains } from '../../records/heightRanges.js';
import type { Session } from '../connection/Session.js';
import type { Loaded } from '../reading/loadStore.js';
import { rangesOf, readBook, writeBook } from '../tables/bookRows.js';
import { lockStore, readHeads, readOpenRanges, readRanges } from '../tables/readState.js';
import type { OpenRangeRow } from '../tables/readState.js';
import { Fence } from '../writing/Fence.js';
import { PostgresRange } from './PostgresRange.js';
import type { RangeParts, RangeState, RunHooks } from './PostgresRange.js';

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
  #plans: readonly BackfillPlan[] = [];
  #rows: readonly OpenRangeRow[] = [];
  /** By first height. */
  readonly #runs = new Map<number, PostgresRange>();

  constructor(parts: RangeParts) {
    this.#parts = parts;
  }

  /** Takes over what was read from the database. A row that is older than the known one is ignored. */
  load({ plans = this.#plans, open = this.#rows }: Partial<Pick<Loaded, 'plans' | 'open'>>): void {
    this.#plans = plans;
    const known = new Map(this.#rows.map((row) => [row.from, row]));
    this.#rows = open.map((row) => newer(row, known.get(row.from)));
  }

  plans(): readonly BackfillPlan[] {
    return this.#plans;
  }

  open(): readonly OpenRange[] {
    return this.#rows.map(({ from, to, next, failures, reason }) => ({ from, to, next, failures, reason }));
  }

  async change(change: RangeChange): Promise<void> {
    for (const { from } of change.dropped ?? []) await this.#endRun(from);
    await this.transact((transaction) => transaction.write(change));
  }

  /** One snapshot at a time, in order: an older one must not replace a newer one. Expected errors: `StorageError`. */
  read(): Promise<RangeFacts> {
    const { database, inTurn } = this.#parts;
    return inTurn(async () => {
      const facts = await database.snapshot(readRanges);
      this.load(facts);
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
          open: book.open.map(({ record }) => record),
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
    const { database } = this.#parts;
    const { state, fence } = await database.persist(() =>
      database.transaction(async (session) => {
        await lockStore(session);
        const book = await readBook(session);
        if (openAt(book, range) === undefined)
          await writeBook(session, book, withOpen(book, newRange(book, range)));
        const taken = await Fence.take(database, session, { table: 'open_range', fromHeight: from });
        return { fence: taken, state: await stateOf(session, range, coverageOfBook(book)) };
      }),
    );
    await database.persist(() => this.read());
    const run = new PostgresRange(range, state, {
      ...this.#parts,
      hooks,
      fence,
      onProgress: (next) => this.#update({ from, next, epoch: fence.epoch, commits: fence.commits }),
      onPublished: (published) => {
        this.#runs.delete(from);
        this.#rows = this.#rows.filter((each) => each.from !== from);
        this.#parts.onPublished(published);
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

  #update(change: Pick<OpenRangeRow, 'from' | 'next' | 'epoch' | 'commits'>): void {
    this.#rows = this.#rows.map((row) => (row.from === change.from ? { ...row, ...change } : row));
  }
}

function newer(read: OpenRangeRow, known: OpenRangeRow | undefined): OpenRangeRow {
  if (known === undefined || known.epoch < read.epoch) return read;
  return known.epoch === read.epoch && known.commits <= read.commits ? read : known;
}

async function stateOf(
  session: Session,
  { from, to }: HeightRange,
  coverage: readonly HeightRange[],
): Promise<RangeState> {
  const row = (await readOpenRanges(session)).find((each) => each.from === from);
  assert(row !== undefined, 'the range is open');
  const { next, sporks } = row;
  const heads = await readHeads(session, from, to);
  const latestIndexedHeight = next - 1;
  return {
    latestIndexedHeight,
    sporks,
    latestBlock: heads.find(({ height }) => height === latestIndexedHeight),
    above: new Map(heads.filter(({ height }) => height >= next).map((head) => [head.height, head])),
    below: contains(coverage, from - 1) ? (await readHeads(session, from - 1, from - 1))[0] : undefined,
  };
}
