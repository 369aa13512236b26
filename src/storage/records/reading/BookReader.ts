import type { Logger } from '../../../observability/index.js';
import type { BlockHead, StoreMeta } from '../../port/stored.js';
import { healingIn } from '../book/repairedBook.js';
import { blocksAbove, coverageOfBook, hasHeight } from '../book/StoreBook.js';
import type { StoreBook } from '../book/StoreBook.js';
import type { HeightRanges } from '../heightRanges.js';
import { RecordReader } from './RecordReader.js';
import type { RecordSource } from './RecordReader.js';

/** The reads of a store that knows its book; those of `RangeStore` are about the live range. */
export abstract class BookReader extends RecordReader {
  readonly #logger: Logger;

  constructor(source: RecordSource, logger: Logger) {
    super(source);
    this.#logger = logger;
  }

  /** `undefined` for a store that was never initialised. */
  abstract book(): StoreBook | undefined;
  abstract rewind(height: number): Promise<void>;

  async takeBackDamage(): Promise<void> {
    for (let live = this.book()?.live; live?.damage !== undefined; live = this.book()?.live) {
      const { damage, latestBlock, latestIndexedHeight, meta } = live;
      const hasLatest = latestBlock !== undefined || latestIndexedHeight < meta.firstHeight;
      const height = hasLatest ? latestIndexedHeight + 1 : latestIndexedHeight;
      const fields = { height, damage: damage.damage };
      this.#logger.warn(fields, 'a stored height is damaged: it and those above it are fetched again');
      await this.rewind(height - 1);
    }
  }

  forgetAbove(): Promise<void> {
    return this.rewind(this.latestIndexedHeight());
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
