import { ok as assert } from 'node:assert/strict';
import type { Logger } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import type { RangeBook } from '../port/RangeBook.js';
import type { BlockHead, StoreMeta } from '../port/stored.js';
import { healingIn, rewoundBook } from './book/repairedBook.js';
import { blocksAbove, coverageOfBook, hasHeight, type StoreBook } from './book/StoreBook.js';
import type { HeightRanges } from './heightRanges.js';
import { RecordReader, type RecordSource } from './reading/RecordReader.js';

/** What is the same in every store that knows its book; the members of `RangeStore` are about the live range. */
export abstract class BookStore extends RecordReader {
  abstract readonly ranges: RangeBook & { readonly endRuns: () => Promise<void> };
  readonly #dependencies: { readonly clock: Clock; readonly logger: Logger };
  #closing: Promise<void> | undefined;

  constructor(source: RecordSource, dependencies: { readonly clock: Clock; readonly logger: Logger }) {
    super(source);
    this.#dependencies = dependencies;
  }

  /** `undefined` for a store that was never initialised. */
  abstract book(): StoreBook | undefined;
  /** For `rewind`: removes what is stored above a height, in all ranges, and reads the book anew. */
  abstract removeAbove(height: number, onStep?: (highest: number) => void): Promise<void>;
  /** For `close`. */
  abstract end(): Promise<void>;

  /** Damaged records above the target are removed as well. */
  async rewind(height: number, onStep?: (highest: number) => void): Promise<void> {
    const { clock, logger } = this.#dependencies;
    const book = this.initialised();
    const { above, damage, latestIndexedHeight, meta } = book.live;
    const { after } = rewoundBook(book, height);
    if (Math.max(latestIndexedHeight, ...above.keys()) <= height && damage === undefined) return;
    if (after.live.meta.firstHeight !== meta.firstHeight) await this.ranges.endRuns();
    const startedAtMs = clock.monotonic();
    await this.removeAbove(height, onStep);
    logger.info({ height, durationMs: Math.round(clock.monotonic() - startedAtMs) }, 'rewind done');
  }

  async takeBackDamage(): Promise<void> {
    for (let live = this.book()?.live; live?.damage !== undefined; live = this.book()?.live) {
      const { damage, latestBlock, latestIndexedHeight, meta } = live;
      const hasLatest = latestBlock !== undefined || latestIndexedHeight < meta.firstHeight;
      const height = hasLatest ? latestIndexedHeight + 1 : latestIndexedHeight;
      const fields = { height, damage: damage.damage };
      const what = 'a stored height is damaged: it and those above it are fetched again';
      this.#dependencies.logger.warn(fields, what);
      await this.rewind(height - 1);
    }
  }

  async forgetAbove(): Promise<void> {
    await this.takeBackDamage();
    await this.rewind(this.latestIndexedHeight());
  }

  close(): Promise<void> {
    return (this.#closing ??= this.end());
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
    return this.book()?.live.meta;
  }

  /** 0 for a store that was never initialised. */
  latestIndexedHeight(): number {
    return this.book()?.live.latestIndexedHeight ?? 0;
  }

  latestBlock(): BlockHead | undefined {
    return this.book()?.live.latestBlock;
  }

  blocksAboveWatermark(): readonly BlockHead[] {
    const live = this.book()?.live;
    return live === undefined ? [] : blocksAbove(live);
  }

  hasHeight(height: number): boolean {
    const live = this.book()?.live;
    return live !== undefined && hasHeight(live, height);
  }

  healing(): HeightRanges {
    return healingIn(this.book()?.plans ?? [], this.coverage());
  }
}
