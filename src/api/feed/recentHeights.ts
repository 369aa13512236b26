import { RunningAverage } from '../../runtime/index.js';
import type { IndexReader, WholeBlock } from '../../storage/index.js';
import { rewound } from '../view/ApiError.js';

/**
 * Reads indexed heights through a cache of the latest ones, which all followers of the tip want. What was read before a
 * rewind is forgotten, and what is being read then is not kept. `max`: of all sizes together. `read`: `undefined` if the height
 * is not indexed.
 */
export function recentHeights<T>(
  { max, sizeOf }: { readonly max: number; readonly sizeOf: (value: T) => number },
  reader: Pick<IndexReader, 'rewinds'>,
  read: (height: number) => Promise<T | undefined>,
) {
  /** By height, in the order in which they were read. */
  const kept = new Map<number, T>();
  let keptSize = 0;
  /** Reads in progress, shared by all callers that want the same height. */
  const reading = new Map<number, Promise<T>>();
  let rewinds = 0;

  const forget = (height: number): void => {
    const value = kept.get(height);
    if (value !== undefined) keptSize -= sizeOf(value);
    kept.delete(height);
  };
  const forgetRewound = (): void => {
    const now = reader.rewinds();
    if (now === rewinds) return;
    rewinds = now;
    reading.clear();
    for (const height of [...kept.keys()]) forget(height);
  };
  const keep = (height: number, value: T): void => {
    kept.set(height, value);
    keptSize += sizeOf(value);
    for (const oldest of kept.keys()) {
      if (keptSize <= max) return;
      forget(oldest);
    }
  };
  const readIndexed = async (height: number): Promise<T> => {
    const value = await read(height);
    // It was indexed when it was asked for.
    if (value === undefined) throw rewound(height);
    return value;
  };
  return {
    forget,
    /** Expected errors: those of `read`; ApiError (rewound). */
    get: async (height: number): Promise<T> => {
      forgetRewound();
      const known = kept.get(height) ?? reading.get(height);
      if (known !== undefined) return known;
      const begun = readIndexed(height);
      reading.set(height, begun);
      const isWanted = (): boolean => reading.get(height) === begun;
      try {
        const value = await begun;
        if (isWanted()) keep(height, value);
        return value;
      } finally {
        if (isWanted()) reading.delete(height);
      }
    },
  };
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
  const blocks = recentHeights({ max: RECENT_BYTES, sizeOf: bytesOf }, reader, async (height) => {
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
