import { decodeBlock } from '../../../flow/index.js';
import type { VerifiedCollection } from '../../../flow/index.js';
import type { BlockEntry } from '../../../storage/index.js';
import { timeOf } from './timeOf.js';
import type { Time } from './timeOf.js';

/** A collection of a block, by its place. */
export interface CollectionRow {
  readonly block: BlockRow;
  readonly index: number;
  readonly id: string;
  readonly transactions: number;
  readonly verified: VerifiedCollection;
}

/** A block as tables show it. */
export class BlockRow {
  readonly entry: BlockEntry;
  readonly height: number;
  readonly id: string;
  readonly parentId: string;
  readonly time: Time;
  readonly collections: readonly CollectionRow[];
  readonly transactions: number;

  constructor(entry: BlockEntry) {
    const { block } = entry;
    this.entry = entry;
    this.height = block.height;
    this.id = block.id;
    this.parentId = block.parentId;
    this.time = timeOf(decodeBlock(block.encoded).timestamp);
    this.collections = entry.collections.map((verified, index) => ({
      block: this,
      index,
      id: verified.id,
      transactions: verified.ranges.length / 2,
      verified,
    }));
    this.transactions = this.collections.reduce((sum, { transactions }) => sum + transactions, 0);
  }
}
