import { ok as assert } from 'node:assert/strict';
import type { CommitBatch } from '../../port/RangeStore.js';
import type { BlockHead, StoredBlock, StoreMeta } from '../../port/stored.js';
import { stateOfOpen } from '../book/changeBook.js';
import { blocksAbove, hasHeight } from '../book/StoreBook.js';
import type { OpenState, StoreBook, StoreState } from '../book/StoreBook.js';
import type { RecordReader } from './RecordReader.js';

/** A run of an open range that is being filled: what the runs of all engines have in common. */
export abstract class RangeReader {
  /** As its last write has left it. */
  range: OpenState;
  /** The range is dropped, or another run has taken over. */
  isEnded = false;
  readonly #below: BlockHead | undefined;
  readonly #store: RecordReader & { readonly initialised: () => StoreBook };

  /** `below`: the covered block below the range. `store`: the whole one. */
  constructor(
    range: OpenState,
    below: BlockHead | undefined,
    store: RecordReader & { readonly initialised: () => StoreBook },
  ) {
    this.range = range;
    this.#below = below;
    this.#store = store;
  }

  state(): StoreState {
    return stateOfOpen(this.#store.initialised(), this.range);
  }

  meta(): StoreMeta {
    return this.state().meta;
  }

  latestIndexedHeight(): number {
    return this.range.next - 1;
  }

  latestBlock(): BlockHead | undefined {
    return this.range.latestBlock ?? this.#below;
  }

  blocksAboveWatermark(): readonly BlockHead[] {
    return blocksAbove(this.range);
  }

  hasHeight(height: number): boolean {
    return hasHeight(this.state(), height);
  }

  blockByHeight(height: number): Promise<StoredBlock | undefined> {
    const { from, next } = this.range;
    const isPassed = height >= from && height < next;
    return isPassed ? this.#store.durableBlock(height) : this.#store.blockByHeight(height);
  }

  /** True for a batch that completes the range. */
  isLast({ blocks, latestIndexedHeight }: CommitBatch): boolean {
    const { to } = this.range;
    const highest = Math.max(latestIndexedHeight, ...blocks.map(({ block }) => block.height));
    assert(highest <= to, `height ${highest} is above the range, which ends at ${to}`);
    return latestIndexedHeight === to;
  }
}
