import type { FinalizedBlock } from '../../flow/index.js';
import { HeightRecord } from './HeightRecord.js';

export interface HeightTableDependencies {
  /** The durable end: records live above it. */
  readonly watermark: { latestIndexedHeight(): number };
}

/**
 * The records of the window, by height. One comes in when its block is linked and goes when it is durable and the watermark has
 * passed it; so it holds the window, and for a moment what the last batch made durable.
 */
export class HeightTable {
  readonly #watermark: HeightTableDependencies['watermark'];
  readonly #records = new Map<number, HeightRecord>();
  /** No record that may go is at or below it. */
  #passed: number;

  constructor(_options: object, dependencies: HeightTableDependencies) {
    this.#watermark = dependencies.watermark;
    this.#passed = this.#watermark.latestIndexedHeight();
  }

  at(height: number): HeightRecord | undefined {
    return this.#records.get(height);
  }

  /** In no particular order. */
  all(): Iterable<HeightRecord> {
    return this.#records.values();
  }

  /** Begins the record of a height. One that is here already is a bug of the caller and throws. */
  link(block: FinalizedBlock): HeightRecord {
    if (this.#records.has(block.height)) throw new Error(`height ${block.height} was linked twice`);
    const record = new HeightRecord(block);
    this.#records.set(block.height, record);
    return record;
  }

  /** Ends the record of a height that nobody works on. */
  remove(record: HeightRecord): void {
    if (record.isInHand) throw new Error(`height ${record.height} is ${record.status}, and was dropped`);
    this.#records.delete(record.height);
  }

  /** The height is durable: its record stays only while it waits for the watermark. */
  settle(record: HeightRecord): void {
    record.moveTo('durable');
    record.received = [];
    record.commit = undefined;
    if (record.height <= this.#watermark.latestIndexedHeight()) this.remove(record);
  }

  /** Drops what the watermark has passed. What is in hand goes by itself once it knows that it is durable. */
  prune(): void {
    const watermark = this.#watermark.latestIndexedHeight();
    if (watermark <= this.#passed) return;
    const isFew = watermark - this.#passed <= this.#records.size;
    const heights = isFew ? range(this.#passed + 1, watermark) : [...this.#records.keys()];
    this.#passed = watermark;
    for (const height of heights) {
      const record = this.#records.get(height);
      if (record !== undefined && height <= watermark && !record.isInHand) this.remove(record);
    }
  }
}

function* range(from: number, to: number): Generator<number> {
  for (let height = from; height <= to; height += 1) yield height;
}
