import { ok as assert } from 'node:assert/strict';
import type { CommitBatch } from '../../port/RangeStore.js';
import type { BlockHead, HeightRange, StoredBlock, StoreMeta } from '../../port/stored.js';
import { blocksAbove, hasHeight, type StoreState } from '../book/StoreBook.js';
import type { RecordReader } from './RecordReader.js';

/** The reads of an open range that is being filled. */
export abstract class RangeReader {
  readonly range: HeightRange;
  readonly #below: BlockHead | undefined;
  readonly #reader: RecordReader;

  /** `below`: the covered block below the range. `reader`: of the whole store. */
  constructor(range: HeightRange, below: BlockHead | undefined, reader: RecordReader) {
    this.range = range;
    this.#below = below;
    this.#reader = reader;
  }

  abstract state(): StoreState;

  meta(): StoreMeta {
    return this.state().meta;
  }

  latestIndexedHeight(): number {
    return this.state().latestIndexedHeight;
  }

  latestBlock(): BlockHead | undefined {
    return this.state().latestBlock ?? this.#below;
  }

  blocksAboveWatermark(): readonly BlockHead[] {
    return blocksAbove(this.state());
  }

  hasHeight(height: number): boolean {
    return hasHeight(this.state(), height);
  }

  blockByHeight(height: number): Promise<StoredBlock | undefined> {
    const isPassed = height >= this.range.from && height <= this.latestIndexedHeight();
    return isPassed ? this.#reader.durableBlock(height) : this.#reader.blockByHeight(height);
  }

  /** `isWhole`: the batch completes the range. `isAtBorder`: it has the first or the last block. */
  extentOf({ blocks, latestIndexedHeight }: CommitBatch) {
    const { from, to } = this.range;
    const heights = blocks.map(({ block }) => block.height);
    const highest = Math.max(latestIndexedHeight, ...heights);
    assert(highest <= to, `height ${highest} is above the range, which ends at ${to}`);
    const isAtBorder = heights.includes(from) || heights.includes(to);
    return { isAtBorder, isWhole: latestIndexedHeight === to };
  }
}
