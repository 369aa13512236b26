import { ok as assert } from 'node:assert/strict';
import type { BackfillPlan, OpenRange, RangeBook, RangeChange } from '../../port/RangeBook.js';
import type { RangeStore } from '../../port/RangeStore.js';
import type { HeightRange } from '../../port/stored.js';
import { newRange, openAt, settled, withOpen, withRangeChange } from '../../records/book/changeBook.js';
import { openRangesOf } from '../../records/book/StoreBook.js';
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
    return openRangesOf(this.#parts.queue.book());
  }

  async change(change: RangeChange): Promise<void> {
    const { queue } = this.#parts;
    const { dropped = [] } = change;
    for (const { from } of dropped) this.#endRun(from);
    await queue.record('range', (book) => {
      const after = withRangeChange(book, change);
      return after === book ? undefined : { after };
    });
    for (const range of dropped) await removeRange(range, queue);
  }

  async run(range: HeightRange): Promise<RangeStore> {
    const { queue } = this.#parts;
    this.#endRun(range.from);
    await queue.record('range', (book) => {
      const open = openAt(book, range);
      assert(open?.record.keep === undefined, 'blocks of this range are being removed');
      if (open !== undefined) return undefined;
      return { after: settled(withOpen(book, newRange(book, range))) };
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
}
