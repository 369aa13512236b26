import { ok as assert } from 'node:assert/strict';
import { MAX_OPEN_RANGES, MAX_PLANS, MAX_RANGE_HEIGHTS } from '../../port/RangeBook.js';
import type { BackfillPlan, OpenRange, RangeBook, RangeChange } from '../../port/RangeBook.js';
import type { RangeStore } from '../../port/RangeStore.js';
import type { HeightRange } from '../../port/stored.js';
import { emptyLine, newRecord, openAt, settled, withOpen } from '../../records/book/changeBook.js';
import { coverageOfBook } from '../../records/book/StoreBook.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import { overlap } from '../../records/heightRanges.js';
import { LevelRangeStore, removeRange } from './LevelRangeStore.js';
import type { RangeParts } from './LevelRangeStore.js';

/** The plans and the open ranges of an open store. */
export class LevelRangeBook implements RangeBook {
  readonly #parts: RangeParts;
  /** The latest run of each open range, by its first height. */
  readonly #runs = new Map<number, LevelRangeStore>();

  constructor(parts: RangeParts) {
    this.#parts = parts;
  }

  plans(): readonly BackfillPlan[] {
    return this.#parts.queue.book()?.plans ?? [];
  }

  open(): readonly OpenRange[] {
    const open = this.#parts.queue.book()?.open ?? [];
    return open.map(({ record: { from, to, next, ...failed } }) => {
      return { from, to, next, failures: failed.failures, reason: failed.reason };
    });
  }

  async change({ plans, failed = [], dropped = [] }: RangeChange): Promise<void> {
    for (const { from } of dropped) this.#endRun(from);
    await this.#parts.queue.record('range', (book) => {
      let after = plans === undefined ? book : { ...book, plans: checked(plans) };
      for (const { failures, reason, ...range } of failed) {
        const open = openAt(after, range) ?? this.#newRange(after, range);
        after = withOpen(after, { ...open, record: { ...open.record, failures, reason } });
      }
      for (const range of dropped) {
        const open = openAt(after, range);
        if (open === undefined) continue;
        const { from, to } = range;
        const isDropped = !failed.some((other) => other.from === from && other.to === to);
        const record = { ...open.record, next: from, keep: from - 1, isDropped };
        after = withOpen(after, { record, line: emptyLine(from) });
      }
      return after === book ? undefined : { after: settled(after) };
    });
    for (const range of dropped) await removeRange(range, this.#parts.queue);
  }

  async run(range: HeightRange): Promise<RangeStore> {
    this.#endRun(range.from);
    await this.#parts.queue.record('range', (book) => {
      const open = openAt(book, range);
      assert(open?.record.keep === undefined, 'blocks of this range are being removed');
      return open === undefined ? { after: settled(withOpen(book, this.#newRange(book, range))) } : undefined;
    });
    const run = await LevelRangeStore.of(range, this.#parts);
    this.#runs.set(range.from, run);
    return run;
  }

  release(run: RangeStore): void {
    for (const [from, each] of this.#runs) if (each === run) this.#endRun(from);
  }

  /** Ends the runs of all ranges. */
  endRuns(): void {
    for (const from of [...this.#runs.keys()]) this.#endRun(from);
  }

  #endRun(from: number): void {
    this.#runs.get(from)?.end();
    this.#runs.delete(from);
  }

  /** A range that was not open before. */
  #newRange(book: StoreBook, { from, to }: HeightRange) {
    const isRange = Number.isSafeInteger(from) && Number.isSafeInteger(to) && from >= 0 && to >= from;
    assert(isRange && to - from < MAX_RANGE_HEIGHTS, `${from} to ${to} is not a range`);
    assert(book.live.latestBlock !== undefined, 'there is no live range yet');
    assert(to < book.live.meta.firstHeight, `height ${to} is not below the live range`);
    const range = { from, to };
    const others = [...coverageOfBook(book), ...book.open.map(({ record }) => record)];
    assert(!others.some((other) => overlap(other, range)), `${from} to ${to} overlaps another range`);
    assert(book.open.length < MAX_OPEN_RANGES, `more than ${MAX_OPEN_RANGES} ranges would be open`);
    return { record: newRecord(range, this.#parts.accounts.isLive()), line: emptyLine(from) };
  }
}

function checked(plans: readonly BackfillPlan[]): readonly BackfillPlan[] {
  const wanted = plans.filter(({ heals }) => heals !== true);
  assert(wanted.length <= MAX_PLANS, `there would be more than ${MAX_PLANS} plans`);
  let below = -1;
  for (const { id, from, to } of plans) {
    assert(id > below, 'the ids of plans must ascend');
    assert(from >= 0 && to >= from, `plan ${id} has no heights`);
    below = id;
  }
  return plans;
}
