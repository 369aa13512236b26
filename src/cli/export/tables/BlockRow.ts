import type { ExportedBlock } from '../../../api/index.js';
import { timeOf } from './timeOf.js';
import type { Time } from './timeOf.js';

/** A collection of a block, by its place. */
export interface CollectionRow {
  readonly block: BlockRow;
  readonly index: number;
  readonly id: string;
  readonly transactions: number;
}

/** What the line of a block says. */
export class BlockRow {
  readonly height: number;
  readonly id: string;
  readonly parentId: string;
  readonly time: Time | null;
  readonly collections: readonly CollectionRow[];
  readonly transactions: number;

  constructor(line: ExportedBlock) {
    this.height = line.height;
    this.id = line.block_id;
    this.parentId = line.parent_id;
    this.time = timeOf(line.timestamp);
    this.collections = line.collections.map(({ collection_id: id, transaction_count }, index) => ({
      ...{ block: this, index, id, transactions: transaction_count },
    }));
    this.transactions = this.collections.reduce((sum, { transactions }) => sum + transactions, 0);
  }
}
