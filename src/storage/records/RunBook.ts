import type { BackfillPlan, OpenRange, RangeBook, RangeChange } from '../port/RangeBook.js';
import type { RangeStore } from '../port/RangeStore.js';
import type { HeightRange } from '../port/stored.js';
import type { StoreBook } from './book/StoreBook.js';

/** What is the same in the ranges of every store that knows its book. */
export abstract class RunBook<Run extends RangeStore & { end: () => Promise<void> }> implements RangeBook {
  /** For the engines: the latest run of each open range, by its first height. */
  readonly runs = new Map<number, Run>();
  readonly #book: () => StoreBook | undefined;

  /** `book`: `undefined` for a store that was never initialised. */
  constructor(book: () => StoreBook | undefined) {
    this.#book = book;
  }

  abstract change(change: RangeChange): Promise<void>;
  abstract run(range: HeightRange): Promise<RangeStore>;

  plans(): readonly BackfillPlan[] {
    return this.#book()?.plans ?? [];
  }

  open(): readonly OpenRange[] {
    const open = this.#book()?.open ?? [];
    return open.map(({ record: { from, to, next, failures, reason } }) => {
      return { from, to, next, failures, reason };
    });
  }

  release(run: RangeStore): void {
    for (const [from, each] of this.runs) if (each === run) void this.endRun(from);
  }

  /** Ends the runs of all ranges, and waits for their writes under way. */
  async endRuns(): Promise<void> {
    await Promise.all([...this.runs.keys()].map((from) => this.endRun(from)));
  }

  /** For the engines. Waits for the write under way. */
  async endRun(from: number): Promise<void> {
    const run = this.runs.get(from);
    // At once: another run of the range may begin while this one ends.
    this.runs.delete(from);
    await run?.end();
  }
}
