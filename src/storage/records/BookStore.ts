import { ok as assert } from 'node:assert/strict';
import type { Logger } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import type { OpenRange, RangeBook } from '../port/RangeBook.js';
import type { RangeStore } from '../port/RangeStore.js';
import type { BlockHead, StoreMeta } from '../port/stored.js';
import { healingIn, rewoundBook } from './book/repairedBook.js';
import { blocksAbove, coverageOfBook, hasHeight, type StoreBook } from './book/StoreBook.js';
import type { HeightRanges } from './heightRanges.js';
import { RecordReader, type RecordSource } from './reading/RecordReader.js';

/** What is the same in every store that knows its book; the members of `RangeStore` are about the live range. */
export abstract class BookStore<Run extends RangeStore & { end: () => Promise<void> }> extends RecordReader {
  /** The latest run of each open range, by its first height. */
  readonly runs = new Map<number, Run>();
  readonly dependencies: { readonly clock: Clock; readonly logger: Logger };
  /** How often blocks were removed that could be read. */
  removals = 0;
  #closing: Promise<void> | undefined;

  constructor(source: RecordSource, dependencies: { readonly clock: Clock; readonly logger: Logger }) {
    super(source);
    this.dependencies = dependencies;
  }

  /** `undefined` for a store that was never initialised. */
  abstract book(): StoreBook | undefined;
  /** For `rewind`: removes what is stored above a height, in all ranges, and reads the book anew. */
  abstract removeAbove(height: number, onStep?: (highest: number) => void): Promise<void>;
  /** For `close`. */
  abstract end(): Promise<void>;

  /** Damaged records above the target are removed as well. */
  async rewind(height: number, onStep?: (highest: number) => void): Promise<void> {
    const { clock, logger } = this.dependencies;
    const book = this.initialised();
    const { above, damage, latestIndexedHeight, meta } = book;
    const { after } = rewoundBook(book, height);
    if (Math.max(latestIndexedHeight, ...above.keys()) <= height && damage === undefined) return;
    if (after.meta.firstHeight !== meta.firstHeight) await this.endRuns();
    const startedAtMs = clock.monotonic();
    await this.removeAbove(height, onStep);
    logger.info({ height, durationMs: Math.round(clock.monotonic() - startedAtMs) }, 'rewind done');
  }

  async takeBackDamage(): Promise<void> {
    for (let book = this.book(); book?.damage !== undefined; book = this.book()) {
      const { damage, latestBlock, latestIndexedHeight, meta } = book;
      const hasLatest = latestBlock !== undefined || latestIndexedHeight < meta.firstHeight;
      const height = hasLatest ? latestIndexedHeight + 1 : latestIndexedHeight;
      const fields = { height, damage: damage.damage };
      const what = 'a stored height is damaged: it and those above it are fetched again';
      this.dependencies.logger.warn(fields, what);
      await this.rewind(height - 1);
    }
  }

  async forgetAbove(): Promise<void> {
    await this.takeBackDamage();
    await this.rewind(this.latestIndexedHeight());
  }

  /** The plans and open ranges, with what the engine does in its own way. */
  rangesWith<Own extends Pick<RangeBook, 'change' | 'run'>>(own: Own) {
    return {
      ...own,
      plans: () => this.book()?.plans ?? [],
      open: () => (this.book()?.open ?? []).map((range) => this.#openRange(range)),
      release: (run: RangeStore): void => {
        for (const [from, each] of this.runs) if (each === run) void this.endRun(from);
      },
    };
  }

  /** It may have been read before the last commit of its run. */
  #openRange({ from, to, failures, reason, ...known }: OpenRange): OpenRange {
    const next = (this.runs.get(from)?.latestIndexedHeight() ?? known.next - 1) + 1;
    return { from, to, next, failures, reason };
  }

  /** Ends the runs of all ranges, and waits for their writes under way. */
  async endRuns(): Promise<void> {
    await Promise.all([...this.runs.keys()].map((from) => this.endRun(from)));
  }

  /** Waits for the write under way. */
  async endRun(from: number): Promise<void> {
    const run = this.runs.get(from);
    // At once: another run of the range may begin while this one ends.
    this.runs.delete(from);
    await run?.end();
  }

  close(): Promise<void> {
    return (this.#closing ??= this.end());
  }

  rewinds(): number {
    return this.removals;
  }

  initialised(): StoreBook {
    const book = this.book();
    assert(book !== undefined, 'the store is not initialised');
    return book;
  }

  coverage(): HeightRanges {
    const book = this.book();
    return book === undefined ? [] : coverageOfBook(book);
  }

  meta(): StoreMeta | undefined {
    return this.book()?.meta;
  }

  /** 0 for a store that was never initialised. */
  latestIndexedHeight(): number {
    return this.book()?.latestIndexedHeight ?? 0;
  }

  latestBlock(): BlockHead | undefined {
    return this.book()?.latestBlock;
  }

  blocksAboveWatermark(): readonly BlockHead[] {
    const book = this.book();
    return book === undefined ? [] : blocksAbove(book);
  }

  hasHeight(height: number): boolean {
    const book = this.book();
    return book !== undefined && hasHeight(book, height);
  }

  healing(): HeightRanges {
    return healingIn(this.book()?.plans ?? [], this.coverage());
  }
}
