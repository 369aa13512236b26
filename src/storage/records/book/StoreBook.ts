import type { BackfillPlan } from '../../port/RangeBook.js';
import type { BlockHead, HeightRange, StoreMeta } from '../../port/stored.js';
import type { StorageError } from '../../StorageError.js';
import type { Coverage } from '../accountCoverage.js';
import type { OpenRecord } from '../coding/jsonRecords.js';
import { contains, joined, type HeightRanges } from '../heightRanges.js';

/**
 * The most blocks that may be durable above the watermark. They all lie within one window of heights, and no window is
 * wider than this.
 */
export const MAX_BLOCKS_ABOVE_WATERMARK = 4096;

/** A run of heights: how far it is durable, and its meta record, whose `firstHeight` is the beginning of the run. */
export interface StoreState {
  readonly meta: StoreMeta;
  readonly latestIndexedHeight: number;
  readonly latestBlock: BlockHead | undefined;
  /** Blocks that are durable above the watermark, by height. */
  readonly above: ReadonlyMap<number, BlockHead>;
  /** Hides the block at the watermark, or one above it, which must be taken back before anything else is written. */
  readonly damage: StorageError | undefined;
}

/** An open range: its record, and what is durable of it. The watermark is `next - 1`. */
export interface OpenState extends OpenRecord, Pick<StoreState, 'latestBlock' | 'above'> {}

/**
 * What an open store keeps in memory: the content of its records. It is itself the state of the live range, which is the
 * highest.
 */
export interface StoreBook extends StoreState {
  /** The covered ranges below the live one, ascending; they do not touch it or each other. */
  readonly published: HeightRanges;
  readonly plans: readonly BackfillPlan[];
  /** Ascending. */
  readonly open: readonly OpenState[];
  /** What the account index covers; `undefined`: there is no record of one. */
  readonly accounts: Coverage | undefined;
  /**
   * Heights whose blocks may have no proof; all other durable blocks have one. Counts only in a store with proofs
   * (`PROOFS_SCHEMA_VERSION`): in any other store, no block has one.
   */
  readonly unproven: HeightRanges;
}

/** The book of a store without blocks, or before they are read. */
export function emptyBook(meta: StoreMeta): StoreBook {
  const nothing = { published: [], plans: [], open: [], accounts: undefined, unproven: [] };
  return { ...emptyState(meta, meta.firstHeight), ...nothing };
}

/** A run with nothing known to be durable from this height on. */
export function emptyState(meta: StoreMeta, next: number): StoreState {
  return { meta, latestIndexedHeight: next - 1, ...NO_BLOCKS, damage: undefined };
}

export const NO_BLOCKS: Pick<StoreState, 'latestBlock' | 'above'> = {
  latestBlock: undefined,
  above: new Map(),
};

/** Like `RangeStore.blocksAboveWatermark`. */
export function blocksAbove({ above }: Pick<StoreState, 'above'>): readonly BlockHead[] {
  return [...above.values()].sort((left, right) => left.height - right.height);
}

/** Like `RangeStore.hasHeight`. */
export function hasHeight({ above, latestIndexedHeight, meta }: StoreState, height: number): boolean {
  return above.has(height) || (height >= meta.firstHeight && height <= latestIndexedHeight);
}

/** The heights that can be read. */
export function coverageOfBook(book: StoreBook): HeightRanges {
  const live = liveRange(book);
  return live.to < live.from ? book.published : [...book.published, live];
}

/** May be empty. */
export function liveRange({ latestIndexedHeight, meta }: StoreState): HeightRange {
  return { from: meta.firstHeight, to: latestIndexedHeight };
}

/**
 * Heights whose blocks exist unless something is damaged: the covered ones, and those of open ranges below their gaps.
 */
export function durableHeights(book: StoreBook): HeightRange[] {
  const open = book.open.map(({ from, next }) => ({ from, to: next - 1 }));
  return joined([...coverageOfBook(book), ...open]);
}

export function isCovered(book: StoreBook, height: number): boolean {
  return contains(coverageOfBook(book), height);
}
