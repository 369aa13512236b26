import type { Giver } from '../../access/index.js';
import { isSameBlock } from '../../flow/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { HeightRecord } from './HeightRecord.js';
import type { HeightStatus } from './HeightRecord.js';

export interface HeightTableDependencies {
  /** Records exist for heights above the watermark. */
  readonly watermark: { latestIndexedHeight(): number };
}

/**
 * The records of the window, by height. A record is added when its block links, and removed when it is durable and the
 * watermark has passed it. So the table holds the window and, for a moment, the heights of the last batch.
 */
export class HeightTable {
  readonly #watermark: HeightTableDependencies['watermark'];
  readonly #records = new Map<number, HeightRecord>();
  #inHand = 0;
  #collecting = 0;
  #bytesInHand = 0;
  /** No height in hand is below it. */
  #lowestInHand = 0;
  /** No height that lacks a collection is below it. */
  #lowestCollecting = 0;
  /** Records at or below it have been dropped. */
  #passed: number;

  constructor(dependencies: HeightTableDependencies) {
    this.#watermark = dependencies.watermark;
    this.#passed = this.#watermark.latestIndexedHeight();
  }

  /** Heights that were handed out and are not durable. */
  get inHand(): number {
    return this.#inHand;
  }

  /** Those of them that lack a collection. */
  get collecting(): number {
    return this.#collecting;
  }

  /** Bytes of collections received for heights in hand. */
  get bytesInHand(): number {
    return this.#bytesInHand;
  }

  at(height: number): HeightRecord | undefined {
    return this.#records.get(height);
  }

  /** In no particular order. */
  all(): Iterable<HeightRecord> {
    return this.#records.values();
  }

  lowestInHand(): HeightRecord | undefined {
    if (this.#inHand === 0) return undefined;
    while (this.#records.get(this.#lowestInHand)?.isInHand !== true) this.#lowestInHand += 1;
    return this.#records.get(this.#lowestInHand);
  }

  lowestCollecting(): HeightRecord | undefined {
    if (this.#collecting === 0) return undefined;
    while (this.#records.get(this.#lowestCollecting)?.status !== 'collecting') this.#lowestCollecting += 1;
    return this.#records.get(this.#lowestCollecting);
  }

  /**
   * Adds a record for a block that links, or returns the existing one. If that holds another block, it was already handed
   * out, and the caller must replace it.
   */
  link(block: FinalizedBlock, giver?: Giver): HeightRecord {
    let record = this.#records.get(block.height);
    if (record === undefined) {
      record = new HeightRecord(block, giver);
      this.#records.set(block.height, record);
    } else if (isSameBlock(record.block, block)) record.giver = giver;
    return record;
  }

  /** Forgets a block that was not handed out. */
  unlink(height: number): void {
    if (this.#records.get(height)?.status === 'linked') this.#records.delete(height);
  }

  /** Adds received bytes to the height; negative when some are released. */
  count(record: HeightRecord, bytes: number): void {
    record.bytes += bytes;
    this.#bytesInHand += bytes;
  }

  /** Moves the height to its next status. A durable one stays only while it waits for the watermark. */
  move(record: HeightRecord, status: HeightStatus): void {
    const { height, isInHand: wasInHand, status: before } = record;
    record.moveTo(status);
    if (before === 'collecting') this.#collecting -= 1;
    if (status === 'collecting') {
      this.#lowestCollecting = this.#collecting === 0 ? height : Math.min(this.#lowestCollecting, height);
      this.#collecting += 1;
    }
    if (record.isInHand && !wasInHand) {
      this.#lowestInHand = this.#inHand === 0 ? height : Math.min(this.#lowestInHand, height);
      this.#inHand += 1;
    }
    if (status !== 'durable') return;
    if (wasInHand) this.#inHand -= 1;
    this.count(record, -record.bytes);
    record.received = [];
    record.commit = undefined;
    if (height <= this.#watermark.latestIndexedHeight()) this.#records.delete(height);
  }

  /** Drops what the watermark has passed. Heights in hand are dropped once they learn that they are durable. */
  prune(): void {
    const watermark = this.#watermark.latestIndexedHeight();
    if (watermark <= this.#passed) return;
    const isFew = watermark - this.#passed <= this.#records.size;
    const heights = isFew ? range(this.#passed + 1, watermark) : [...this.#records.keys()];
    this.#passed = watermark;
    for (const height of heights) {
      const record = this.#records.get(height);
      if (record !== undefined && height <= watermark && !record.isInHand) this.#records.delete(height);
    }
  }
}

function* range(from: number, to: number): Generator<number> {
  for (let height = from; height <= to; height += 1) yield height;
}
