import { RunningAverage } from '../../runtime/index.js';
import type { IndexReader, WholeBlock } from '../../storage/index.js';
import { rewound } from '../view/ApiError.js';

/**
 * Reads indexed heights through a cache of the latest ones, which all followers of the tip want. A rewind empties it, and reads
 * in progress are not kept. `max`: the sum of all sizes. `read`: `undefined` if the height is not indexed.
 */
export function recentHeights<T>(
  { max, sizeOf }: { readonly max: number; readonly sizeOf: (value: T) => number },
  reader: Pick<IndexReader, 'rewinds'>,
  read: (height: number) => Promise<T | undefined>,
) {
  /** By height, in the order in which reads began. All callers share a read in progress, which has no size yet. */
  const recent = new Map<number, { readonly value: Promise<T>; size: number }>();
  let size = 0;
  let rewinds = 0;

  const forget = (height: number): void => {
    size -= recent.get(height)?.size ?? 0;
    recent.delete(height);
  };
  const readIndexed = async (height: number): Promise<T> => {
    const value = await read(height);
    // It was indexed when it was requested.
    if (value === undefined) throw rewound(height);
    return value;
  };
  const begin = (height: number): Promise<T> => {
    const entry = { value: readIndexed(height), size: 0 };
    recent.set(height, entry);
    const isWanted = (): boolean => recent.get(height) === entry;
    const keep = (value: T): void => {
      if (!isWanted()) return;
      entry.size = sizeOf(value);
      size += entry.size;
      for (const [oldest, its] of recent) {
        if (size <= max) return;
        if (its.size > 0) forget(oldest);
      }
    };
    // The callers handle an error.
    entry.value.then(keep, () => isWanted() && forget(height));
    return entry.value;
  };
  /** Expected errors: those of `read`; ApiError (rewound). */
  const get = (height: number): Promise<T> => {
    const now = reader.rewinds();
    if (now !== rewinds) {
      recent.clear();
      size = 0;
    }
    rewinds = now;
    return recent.get(height)?.value ?? begin(height);
  };
  return {
    forget,
    get,
    /** Reads heights ahead. */
    prepare: (from: number, to: number): void => {
      // The later caller handles an error.
      for (let height = from; height <= to; height += 1) get(height).catch(() => undefined);
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

/**
 * Reads blocks of consecutive indexed heights with their bodies, several at once, through a cache: from the first on, as many as
 * fit into one event, at least one. Expected errors: `StorageError`; ApiError (rewound).
 */
export function recentBodies(reader: Pick<IndexReader, 'wholeBlock' | 'rewinds'>) {
  const blockBytes = new RunningAverage(BLOCK_BYTES);
  const blocks = recentHeights({ max: RECENT_BYTES, sizeOf: bytesOf }, reader, async (height) => {
    const block = await reader.wholeBlock(height);
    if (block !== undefined) blockBytes.observe(bytesOf(block));
    return block;
  });
  /** The last height of those that are expected to fit into one event. */
  const lastOf = (from: number, to: number): number => {
    const expected = Math.floor(EVENT_BYTES / (blockBytes.value ?? EVENT_BYTES));
    return Math.min(to, from + Math.max(1, Math.min(expected, EVENT_HEIGHTS)) - 1);
  };
  return async (from: number, to: number): Promise<readonly WholeBlock[]> => {
    const length = lastOf(from, to) - from + 1;
    const found = await Promise.all(Array.from({ length }, (_, index) => blocks.get(from + index)));
    let bytes = 0;
    const tooMany = found.findIndex((block) => (bytes += bytesOf(block)) > EVENT_BYTES);
    const fitting = tooMany === -1 ? found : found.slice(0, Math.max(1, tooMany));
    for (const { block } of fitting) if (block.height <= to - TIP_HEIGHTS) blocks.forget(block.height);
    // The next ones, while these are sent.
    const next = from + fitting.length;
    blocks.prepare(next, lastOf(next, to));
    return fitting;
  };
}

function bytesOf({ block, bodies }: WholeBlock): number {
  return bodies.reduce((sum, { length }) => sum + length, block.encoded.length);
}
