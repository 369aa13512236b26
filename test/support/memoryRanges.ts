import { joined, without } from '../../src/storage/index.js';
import type { BackfillPlan, BlockHead, HeightRange, OpenRange, RangeStore } from '../../src/storage/index.js';
import type { StoreMeta } from '../../src/storage/index.js';
import type { RangeBook, RangeChange } from '../../src/storage/port/RangeBook.js';

/** Coverage, plans and open ranges in memory, with heights for blocks: the part of a store that work sources see. */
export class MemoryRanges implements RangeBook {
  readonly ranges: RangeBook = this;
  /** Every range that was begun or taken up again, in order. */
  readonly runs: HeightRange[] = [];
  readonly released: RangeStore[] = [];
  #coverage: readonly HeightRange[];
  #plans: readonly BackfillPlan[] = [];
  readonly #open = new Map<number, OpenRange>();

  constructor(live: HeightRange) {
    this.#coverage = [live];
  }

  coverage(): readonly HeightRange[] {
    return this.#coverage;
  }

  latestIndexedHeight(): number {
    return this.#coverage.at(-1)!.to;
  }

  latestBlock(): BlockHead {
    const height = this.latestIndexedHeight();
    // Nobody looks at more than its height.
    return { height } as BlockHead;
  }

  meta(): StoreMeta {
    const firstHeight = this.#coverage.at(-1)!.from;
    return { schemaVersion: 1, chainId: 'flow-localnet', firstHeight, createdBy: 'test', sporks: [] };
  }

  plans(): readonly BackfillPlan[] {
    return this.#plans;
  }

  open(): readonly OpenRange[] {
    return [...this.#open.values()].sort((a, b) => a.from - b.from);
  }

  async change({ plans, failed = [], dropped = [] }: RangeChange): Promise<void> {
    if (plans !== undefined) this.#plans = typeof plans === 'function' ? plans(this.#plans) : plans;
    for (const { from } of dropped) this.#open.delete(from);
    for (const range of failed) {
      const next = this.#open.get(range.from)?.next ?? range.from;
      this.#open.set(range.from, { ...range, next });
    }
  }

  async run(range: HeightRange): Promise<RangeStore> {
    const others = this.open().filter(({ from }) => from !== range.from);
    if (without([range], [...this.#coverage, ...others]).length !== 1 || range.from > range.to)
      throw new Error(`the range ${range.from} to ${range.to} is taken`);
    this.runs.push(range);
    if (!this.#open.has(range.from)) this.#open.set(range.from, { ...range, next: range.from, failures: 0 });
    // Nothing but the heights matters here.
    return {
      latestIndexedHeight: () => (this.#open.get(range.from)?.next ?? range.to + 1) - 1,
    } as RangeStore;
  }

  release(run: RangeStore): void {
    this.released.push(run);
  }

  /** So many heights more are durable; the last one publishes the range. */
  fill({ from, to }: HeightRange, heights = Infinity): void {
    const range = this.#open.get(from)!;
    const next = Math.min(to + 1, range.next + heights);
    if (next <= to) {
      this.#open.set(from, { ...range, next });
      return;
    }
    this.#open.delete(from);
    this.#coverage = joined([...this.#coverage, { from, to }]);
    this.#plans = this.#plans.filter((plan) => without([plan], this.#coverage).length > 0);
  }
}
