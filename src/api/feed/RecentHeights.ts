import { RunningAverage } from '../../runtime/index.js';
import type { IndexReader, WholeBlock } from '../../storage/index.js';
import { rewound } from '../view/ApiError.js';

/**
 * Reads indexed heights through a cache of the latest ones, which all followers of the tip want. What was read before a
 * rewind is forgotten, and what is being read then is not kept.
 */
export class RecentHeights<T> {
  readonly #max: number;
  readonly #sizeOf: (value: T) => number;
  readonly #reader: Pick<IndexReader, 'rewinds'>;
  readonly #readHeight: (height: number) => Promise<T | undefined>;
  /** By height, in the order in which they were read. */
  readonly #kept = new Map<number, T>();
  #keptSize = 0;
  /** Reads in progress, shared by all callers that want the same height. */
  readonly #reading = new Map<number, Promise<T>>();
  #rewinds = 0;

  /** `max`: of all sizes together. `read`: `undefined` if the height is not indexed. */
  constructor(
    { max, sizeOf }: { readonly max: number; readonly sizeOf: (value: T) => number },
    reader: Pick<IndexReader, 'rewinds'>,
    read: (height: number) => Promise<T | undefined>,
  ) {
    this.#max = max;
    this.#sizeOf = sizeOf;
    this.#reader = reader;
    this.#readHeight = read;
  }

  /** Expected errors: those of `read`; ApiError (rewound). */
  async get(height: number): Promise<T> {
    this.#forgetRewound();
    const kept = this.#kept.get(height);
    if (kept !== undefined) return kept;
    const known = this.#reading.get(height);
    if (known !== undefined) return known;
    const reading = this.#read(height);
    this.#reading.set(height, reading);
    try {
      const value = await reading;
      if (this.#reading.get(height) === reading) this.#keep(height, value);
      return value;
    } finally {
      if (this.#reading.get(height) === reading) this.#reading.delete(height);
    }
  }

  forget(height: number): void {
    const kept = this.#kept.get(height);
    if (kept !== undefined) this.#keptSize -= this.#sizeOf(kept);
    this.#kept.delete(height);
  }

  async #read(height: number): Promise<T> {
    const value = await this.#readHeight(height);
    // It was indexed when it was asked for.
    if (value === undefined) throw rewound(height);
    return value;
  }

  #forgetRewound(): void {
    const rewinds = this.#reader.rewinds();
    if (rewinds === this.#rewinds) return;
    this.#rewinds = rewinds;
    this.#reading.clear();
    for (const height of [...this.#kept.keys()]) this.forget(height);
  }

  #keep(height: number, value: T): void {
    this.#kept.set(height, value);
    this.#keptSize += this.#sizeOf(value);
    for (const oldest of this.#kept.keys()) {
      if (this.#keptSize <= this.#max) return;
      this.forget(oldest);
    }
  }
}

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

/** Reads blocks with their bodies, several at once, through a cache. */
export function recentBodies(reader: Pick<IndexReader, 'wholeBlock' | 'rewinds'>) {
  const blockBytes = new RunningAverage(BLOCK_BYTES);
  const blocks = new RecentHeights({ max: RECENT_BYTES, sizeOf: bytesOf }, reader, async (height) => {
    const block = await reader.wholeBlock(height);
    if (block !== undefined) blockBytes.observe(bytesOf(block));
    return block;
  });
  /** Reads as many blocks as are expected to fit into one event. */
  const some = (from: number, to: number): Promise<readonly WholeBlock[]> => {
    const expected = Math.floor(EVENT_BYTES / (blockBytes.value ?? EVENT_BYTES));
    const count = Math.min(to - from + 1, Math.max(1, Math.min(expected, EVENT_HEIGHTS)));
    return Promise.all(Array.from({ length: count }, (_, index) => blocks.get(from + index)));
  };
  return {
    /**
     * Blocks of consecutive indexed heights, from the first of them on: as many as one event takes, at least one. Expected
     * errors: `StorageError`; ApiError (rewound).
     */
    read: async (from: number, to: number): Promise<readonly WholeBlock[]> => {
      const found = await some(from, to);
      let bytes = 0;
      const tooMany = found.findIndex((block) => (bytes += bytesOf(block)) > EVENT_BYTES);
      const fitting = tooMany === -1 ? found : found.slice(0, Math.max(1, tooMany));
      for (const { block } of fitting) if (block.height <= to - TIP_HEIGHTS) blocks.forget(block.height);
      return fitting;
    },
    /** Reads ahead what the next `read` will ask for. */
    prepare: (from: number, to: number): void => {
      // The `read` reports an error.
      if (from <= to) some(from, to).catch(() => undefined);
    },
  };
}

function bytesOf({ block, collections }: WholeBlock): number {
  return collections.reduce((sum, { encoded }) => sum + encoded.length, block.encoded.length);
}
