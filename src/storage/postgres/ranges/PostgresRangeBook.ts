import { ok as assert } from 'node:assert/strict';
import { MAX_OPEN_RANGES, MAX_PLANS, MAX_RANGE_HEIGHTS } from '../../port/RangeBook.js';
import type { BackfillPlan, FailedRange, OpenRange, RangeBook, RangeChange } from '../../port/RangeBook.js';
import type { RangeStore } from '../../port/RangeStore.js';
import { RangeTakenError } from '../../port/RangeTakenError.js';
import type { HeightRange, SporkRecord } from '../../port/stored.js';
import { contains, overlap } from '../../records/heightRanges.js';
import type { Session } from '../connection/Session.js';
import type { Loaded } from '../reading/loadStore.js';
import { lockStore, readHeads, readRanges, writePlans } from '../tables/readState.js';
import type { OpenRangeRow } from '../tables/readState.js';
import { deleteBlocks } from '../writing/BlockLine.js';
import { Fence } from '../writing/Fence.js';
import { withHoles } from '../writing/changeRows.js';
import { PostgresRange } from './PostgresRange.js';
import type { RangeParts, RangeState, RunHooks } from './PostgresRange.js';

/** What the database holds of ranges. */
export interface RangeFacts {
  /** Ascending; the last one is the live range, which may be empty. None: the store was never initialised. */
  readonly coverage: readonly HeightRange[];
  readonly open: readonly OpenRange[];
  readonly plans: readonly BackfillPlan[];
}

interface BookTransaction {
  readonly session: Session;
  /** Keeps every other process from changing plans and ranges until the transaction ends. */
  lock(): Promise<void>;
  read(): Promise<RangeFacts>;
  write(change: RangeChange): Promise<void>;
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
    await this.transact(async (transaction) => {
      await transaction.lock();
      await transaction.write(change);
    });
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
      database.transaction((session) =>
        work({
          session,
          lock: () => lockStore(session),
          read: () => readRanges(session),
          write: (change) => writeChange(session, change),
        }),
      ),
    );
    await database.persist(() => this.read());
    return result;
  }

  /** Expected errors: `RangeTakenError`. Writes of a run that was replaced reject with `RangeLostError`. */
  async run(range: HeightRange, hooks: RunHooks = {}): Promise<RangeStore> {
    const { from, to } = range;
    await this.#endRun(from);
    const { database } = this.#parts;
    const { state, fence } = await database.persist(() =>
      database.transaction(async (session) => {
        await lockStore(session);
        const facts = await readRanges(session);
        if (!facts.open.some((each) => each.from === from && each.to === to)) {
          checkFree(range, facts);
          await addOpenRange(session, { ...range, failures: 0 });
        }
        const taken = await Fence.take(database, session, { table: 'open_range', fromHeight: from });
        return { fence: taken, state: await stateOf(session, range, facts.coverage) };
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
  const { rows } = await session.query<{ next: number; sporks: readonly SporkRecord[] }>({
    text: 'SELECT next_height AS next, sporks::json AS sporks FROM flow_store.open_range WHERE from_height = $1',
    values: [from],
  });
  const [row] = rows;
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

/** Checks that a range is below the live one, not covered, and overlaps no other. Expected errors: `RangeTakenError`. */
function checkFree({ from, to }: HeightRange, { coverage, open }: RangeFacts): void {
  assert(from >= 0 && from <= to && to - from < MAX_RANGE_HEIGHTS, `no range: ${from} to ${to}`);
  const live = coverage.at(-1);
  assert(live !== undefined && live.to >= live.from && to <= live.to, 'a range lies below the live one');
  const overlaps = (range: HeightRange): boolean => overlap(range, { from, to });
  if (coverage.some(overlaps)) throw new RangeTakenError(`the range ${from} to ${to} is covered in part`);
  if (open.some(overlaps)) throw new RangeTakenError(`the range ${from} to ${to} overlaps an open one`);
  if (open.length >= MAX_OPEN_RANGES) throw new RangeTakenError(`more than ${MAX_OPEN_RANGES} open ranges`);
}

async function writeChange(
  session: Session,
  { plans, failed = [], dropped = [] }: RangeChange,
): Promise<void> {
  const wanted = plans?.filter(({ heals }) => heals !== true) ?? [];
  assert(wanted.length <= MAX_PLANS, `more than ${MAX_PLANS} plans`);
  assert(plans?.every(({ from, to }) => from >= 0 && from <= to) !== false, 'a plan of no heights');
  const { coverage, open } = await readRanges(session);
  const isOpen = (range: HeightRange): boolean =>
    open.some(({ from, to }) => from === range.from && to === range.to);
  for (const range of dropped.filter(isOpen)) {
    // The row first: this waits for the write under way, and no other can follow.
    await session.query({
      text: 'DELETE FROM flow_store.open_range WHERE from_height = $1',
      values: [range.from],
    });
    await deleteBlocks(session, range.from, range.to);
  }
  for (const range of failed) {
    if (!isOpen(range)) checkFree(range, { coverage, open, plans: [] });
    await addOpenRange(session, range);
  }
  if (plans !== undefined) await writePlans(session, withHoles(plans, coverage));
}

/** The epoch begins at the current time: a range that is dropped and begun again must differ from the former one. */
async function addOpenRange(session: Session, { from, to, failures, reason }: FailedRange): Promise<void> {
  await session.query({
    text: `INSERT INTO flow_store.open_range VALUES ($1, $2, $1, $3, $4, '[]',
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 0)
      ON CONFLICT (from_height) DO UPDATE SET failures = excluded.failures, reason = excluded.reason`,
    values: [from, to, failures, reason ?? null],
  });
}
