import { RunningAverage } from '../../runtime/index.js';
import type { IndexReader, WholeBlock } from '../../storage/index.js';
import { RecentHeights } from './RecentHeights.js';

/** Heights share one event up to this size; a larger block has its own event. */
const EVENT_BYTES = 256 * 1024;
/** Heights of one event at most. */
const EVENT_HEIGHTS = 64;
/** Size of the cache: for the blocks to send next, and for the tip, which all followers read. */
const RECENT_BYTES = 16 * 1024 * 1024;
/**
 * Below these newest heights, a block is dropped once it was read: another follower is unlikely to read it soon, and buffers
 * that survive a scavenge cost more than reading them again.
 */
const TIP_HEIGHTS = 64;
/** The average size of a block with its bodies, which decides how many are read at once. */
const BLOCK_BYTES = { weight: 1 / 16, initial: 64 * 1024, min: 1024, max: EVENT_BYTES };

interface Kept {
  readonly block: WholeBlock;
  readonly bytes: number;
}

/** Reads blocks with their bodies, several at once, through a cache. */
export class RecentBodies {
  readonly #blocks: RecentHeights<Kept>;
  readonly #blockBytes = new RunningAverage(BLOCK_BYTES);

  constructor({ reader }: { readonly reader: Pick<IndexReader, 'wholeBlock' | 'rewinds'> }) {
    const read = async (height: number): Promise<Kept | undefined> => {
      const block = await reader.wholeBlock(height);
      return block && this.#measured(block);
    };
    this.#blocks = new RecentHeights({ max: RECENT_BYTES }, { reader, read, sizeOf: ({ bytes }) => bytes });
  }

  /** Reads ahead what the next `read` will ask for. */
  prepare(from: number, to: number): void {
    // The `read` reports an error.
    if (from <= to) this.#some(from, to).catch(() => undefined);
  }

  /**
   * Blocks of consecutive indexed heights, from the first of them on: as many as one event takes, at least one. Expected
   * errors: `StorageError`; ApiError (rewound).
   */
  async read(from: number, to: number): Promise<readonly WholeBlock[]> {
    const read = await this.#some(from, to);
    let bytes = 0;
    const fitting = read.findIndex((block) => (bytes += block.bytes) > EVENT_BYTES);
    const blocks = read
      .slice(0, fitting === -1 ? read.length : Math.max(1, fitting))
      .map(({ block }) => block);
    for (const { block } of blocks) if (block.height <= to - TIP_HEIGHTS) this.#blocks.forget(block.height);
    return blocks;
  }

  /** Reads as many blocks as are expected to fit into one event. */
  #some(from: number, to: number): Promise<readonly Kept[]> {
    const expected = Math.floor(EVENT_BYTES / (this.#blockBytes.value ?? EVENT_BYTES));
    const count = Math.min(to - from + 1, Math.max(1, Math.min(expected, EVENT_HEIGHTS)));
    return Promise.all(Array.from({ length: count }, (_, index) => this.#blocks.get(from + index)));
  }

  #measured(block: WholeBlock): Kept {
    const ofCollections = block.collections.reduce((sum, { encoded }) => sum + encoded.length, 0);
    const bytes = block.block.encoded.length + ofCollections;
    this.#blockBytes.observe(bytes);
    return { block, bytes };
  }
}
