import { RunningAverage } from '../../runtime/index.js';
import type { IndexReader } from '../../storage/index.js';
import type { BlockBodies } from './feedEvents.js';

/** Heights share one event up to this size; a larger block has one of its own. */
const EVENT_BYTES = 256 * 1024;
/** The most heights of one event, however small. */
const EVENT_HEIGHTS = 64;
/** What is kept of the most recently read blocks: all followers of the tip want the same one. */
const RECENT_BYTES = 16 * 1024 * 1024;
/** Of a block and its bodies; decides how many are read at once. */
const BLOCK_BYTES = { weight: 1 / 16, initial: 64 * 1024, min: 1024, max: EVENT_BYTES };

interface Kept {
  readonly bodies: BlockBodies;
  readonly bytes: number;
}

/** Reads blocks with their bodies, several at once, through a cache. */
export class RecentBodies {
  readonly #reader: Pick<IndexReader, 'blockByHeight' | 'collectionsByHeight'>;
  /** By height, least recently read first. */
  readonly #blocks = new Map<number, Kept>();
  #keptBytes = 0;
  readonly #blockBytes = new RunningAverage(BLOCK_BYTES);

  constructor(dependencies: { readonly reader: Pick<IndexReader, 'blockByHeight' | 'collectionsByHeight'> }) {
    this.#reader = dependencies.reader;
  }

  /** What was above this height is indexed no longer. */
  forgetAbove(latestIndexed: number): void {
    for (const height of [...this.#blocks.keys()]) if (height > latestIndexed) this.#forget(height);
  }

  /**
   * Blocks of consecutive indexed heights, from the first of them on: as many as one event takes, at least one. Expected
   * errors: `StorageError`.
   */
  async read(from: number, to: number): Promise<readonly BlockBodies[]> {
    const expected = Math.floor(EVENT_BYTES / (this.#blockBytes.value ?? EVENT_BYTES));
    const count = Math.min(to - from + 1, Math.max(1, Math.min(expected, EVENT_HEIGHTS)));
    const read = await Promise.all(Array.from({ length: count }, (_, index) => this.#block(from + index)));
    let bytes = 0;
    const fitting = read.findIndex((block) => (bytes += block.bytes) > EVENT_BYTES);
    return read.slice(0, fitting === -1 ? count : Math.max(1, fitting)).map(({ bodies }) => bodies);
  }

  async #block(height: number): Promise<Kept> {
    const known = this.#blocks.get(height);
    if (known !== undefined) return known;
    const [stored, collections] = await Promise.all([
      this.#reader.blockByHeight(height),
      this.#reader.collectionsByHeight(height),
    ]);
    const isWhole = collections?.every(({ blockId }) => blockId === stored?.block.id) === true;
    if (stored === undefined || !isWhole) throw new Error(`height ${height} is indexed but cannot be read`);
    const ofCollections = collections.reduce((sum, { encoded }) => sum + encoded.length, 0);
    const kept = { bodies: { stored, collections }, bytes: stored.block.encoded.length + ofCollections };
    this.#blockBytes.observe(kept.bytes);
    this.#keep(height, kept);
    return kept;
  }

  #keep(height: number, kept: Kept): void {
    this.#forget(height);
    this.#blocks.set(height, kept);
    this.#keptBytes += kept.bytes;
    for (const oldest of this.#blocks.keys()) {
      if (this.#keptBytes <= RECENT_BYTES) return;
      this.#forget(oldest);
    }
  }

  #forget(height: number): void {
    this.#keptBytes -= this.#blocks.get(height)?.bytes ?? 0;
    this.#blocks.delete(height);
  }
}
