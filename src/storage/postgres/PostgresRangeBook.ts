import { ok as assert } from 'node:assert/strict';
import type {
  BackfillPlan,
  HeightRange,
  OpenRange,
  RangeBook,
  RangeChange,
  RangeStore,
  SporkRecord,
  StoreMeta,
} from '../IndexStore.js';
import { MAX_OPEN_RANGES, MAX_PLANS, MAX_RANGE_HEIGHTS } from '../IndexStore.js';
import { contains, overlap } from '../records/heightRanges.js';
import { deleteBlocks } from './BlockLine.js';
import type { LineState } from './BlockLine.js';
import { Fence } from './Fence.js';
import type { Writer } from './Fence.js';
import type { Partitions } from './Partitions.js';
import type { PostgresDatabase, Session } from './PostgresDatabase.js';
import type { PostgresIndexReader } from './PostgresIndexReader.js';
import { PostgresRange } from './PostgresRange.js';
import type { RangeState } from './PostgresRange.js';
import { withHoles } from './publish.js';
import type { Published } from './publish.js';
import { openRangeOf, readHeads, readOpenRanges, readPlans, writePlans } from './readState.js';
import type { Scripts } from './Scripts.js';

export interface PostgresRangeBookDependencies {
  readonly database: PostgresDatabase;
  readonly partitions: Partitions;
  readonly scripts: Scripts;
  /** Of the store. */
  readonly fence: () => Writer;
  readonly storeMeta: () => StoreMeta;
  readonly live: () => LineState;
  readonly coverage: () => readonly HeightRange[];
  readonly readerOf: (coverage: () => readonly HeightRange[]) => PostgresIndexReader;
  readonly inTurn: <T>(action: () => Promise<T>) => Promise<T>;
  readonly onPublished: (published: Published) => void;
}

/** The plans and open ranges of a store on PostgreSQL. */
export class PostgresRangeBook implements RangeBook {
  readonly #deps: PostgresRangeBookDependencies;
  #plans: readonly BackfillPlan[] = [];
  #open: readonly OpenRange[] = [];
  /** By first height. */
  readonly #runs = new Map<number, PostgresRange>();

  constructor(
    { plans, open }: { readonly plans: readonly BackfillPlan[]; readonly open: readonly OpenRange[] },
    dependencies: PostgresRangeBookDependencies,
  ) {
    this.#plans = plans;
    this.#open = open;
    this.#deps = dependencies;
  }

  /** What the store has read of it. */
  load({
    plans = this.#plans,
    open = this.#open,
  }: Partial<{ plans: readonly BackfillPlan[]; open: readonly OpenRange[] }>): void {
    this.#plans = plans;
    this.#open = open;
  }

  plans(): readonly BackfillPlan[] {
    return this.#plans;
  }

  open(): readonly OpenRange[] {
    return this.#open;
  }

  async change({ plans, failed = [], dropped = [] }: RangeChange): Promise<void> {
    assert((plans?.length ?? 0) <= MAX_PLANS, `more than ${MAX_PLANS} plans`);
    assert(plans?.every(({ from, to }) => from >= 0 && from <= to) !== false, 'a plan of no heights');
    const known = dropped.filter((range) => this.#isOpen(range));
    for (const { from } of known) await this.#endRun(from);
    for (const range of failed) if (!this.#isOpen(range)) this.#assertFree(range);
    await this.#deps.inTurn(() => this.#change({ plans, failed, dropped: known }));
  }

  async run(range: HeightRange): Promise<RangeStore> {
    const { from, to } = range;
    await this.#endRun(from);
    if (!this.#isOpen(range)) this.#assertFree(range);
    const { database } = this.#deps;
    const { state, fence } = await database.persist(() =>
      database.transaction(async (session) => {
        await session.query({
          text: `INSERT INTO flow_store.open_range VALUES ($1, $2, $1, 0, NULL, '[]', 0, 0) ON CONFLICT DO NOTHING`,
          values: [from, to],
        });
        const taken = await Fence.take(database, session, { table: 'open_range', fromHeight: from });
        return { fence: taken, state: await this.#stateOf(session, range) };
      }),
    );
    this.#open = await database.persist(() => readOpenRanges(database));
    const run: PostgresRange = new PostgresRange(range, state, {
      ...this.#deps,
      fence: () => fence,
      reader: this.#deps.readerOf(() => [
        ...this.#deps.coverage(),
        { from, to: Math.min(to, run.latestIndexedHeight()) },
      ]),
      onProgress: (_, next) => this.#update(from, { next }),
      onPublished: (published) => {
        this.#runs.delete(from);
        this.#open = this.#open.filter((each) => each.from !== from);
        this.#deps.onPublished(published);
      },
    });
    this.#runs.set(from, run);
    return run;
  }

  /** No run of any range writes any more; waits for the writes under way. */
  async endRuns(): Promise<void> {
    await Promise.all([...this.#runs.keys()].map((from) => this.#endRun(from)));
  }

  #isOpen({ from, to }: HeightRange): boolean {
    return this.#open.some((range) => range.from === from && range.to === to);
  }

  async #endRun(from: number): Promise<void> {
    await this.#runs.get(from)?.end();
    this.#runs.delete(from);
  }

  async #change({
    plans,
    failed,
    dropped,
  }: {
    readonly plans: readonly BackfillPlan[] | undefined;
    readonly failed: readonly Omit<OpenRange, 'next'>[];
    readonly dropped: readonly HeightRange[];
  }): Promise<void> {
    const after = await this.#deps.fence().write(async (session) => {
      for (const { from, to } of dropped) {
        await deleteBlocks(session, from, to);
        await session.query({
          text: 'DELETE FROM flow_store.open_range WHERE from_height = $1',
          values: [from],
        });
      }
      for (const { from, to, failures, reason } of failed) {
        await session.query({
          text: `INSERT INTO flow_store.open_range VALUES ($1, $2, $1, $3, $4, '[]', 0, 0)
            ON CONFLICT (from_height) DO UPDATE SET failures = excluded.failures, reason = excluded.reason`,
          values: [from, to, failures, reason ?? null],
        });
      }
      if (plans !== undefined) await writePlans(session, withHoles(plans, this.#deps.coverage()));
      return { open: await readOpenRanges(session), plans: await readPlans(session) };
    });
    assert(after.open.length <= MAX_OPEN_RANGES, `more than ${MAX_OPEN_RANGES} open ranges`);
    this.load(after);
  }

  #update(from: number, change: Partial<OpenRange>): void {
    this.#open = this.#open.map((range) => (range.from === from ? { ...range, ...change } : range));
  }

  #assertFree({ from, to }: HeightRange): void {
    const { coverage, live, storeMeta } = this.#deps;
    assert(from >= 0 && from <= to && to - from < MAX_RANGE_HEIGHTS, `no range: ${from} to ${to}`);
    assert(
      to < storeMeta().firstHeight && live().latestBlock !== undefined,
      'a range lies below the live one',
    );
    const overlaps = (range: HeightRange): boolean => overlap(range, { from, to });
    assert(!coverage().some(overlaps), `the range ${from} to ${to} is covered in part`);
    assert(!this.#open.some(overlaps), `the range ${from} to ${to} overlaps an open one`);
    assert(this.#open.length < MAX_OPEN_RANGES, `more than ${MAX_OPEN_RANGES} open ranges`);
  }

  async #stateOf(session: Session, { from, to }: HeightRange): Promise<RangeState> {
    const { rows } = await session.query<Parameters<typeof openRangeOf>[0] & { readonly sporks: string }>({
      text: 'SELECT * FROM flow_store.open_range WHERE from_height = $1',
      values: [from],
    });
    const [row] = rows;
    assert(row !== undefined, 'the range is open');
    const { next } = openRangeOf(row);
    const heads = await readHeads(session, from, to);
    const latestIndexedHeight = next - 1;
    return {
      ...{ latestIndexedHeight, sporks: JSON.parse(row.sporks) as SporkRecord[] },
      latestBlock: heads.find(({ height }) => height === latestIndexedHeight),
      above: new Map(heads.filter(({ height }) => height >= next).map((head) => [head.height, head])),
      below: contains(this.#deps.coverage(), from - 1)
        ? (await readHeads(session, from - 1, from - 1))[0]
        : undefined,
    };
  }
}
