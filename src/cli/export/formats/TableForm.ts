import type { ExportedTransaction } from '../../../api/index.js';
import type { Cell } from '../tables/column.js';
import type { BlockRow } from '../tables/BlockRow.js';
import { TransactionRow } from '../tables/TransactionRow.js';
import type { TableColumns, TableName } from '../tables/tableColumns.js';
import type { GrowingFile, PartitionForm } from './PartitionForm.js';

/** Whether a transaction is wanted. */
export type Wanted = (row: TransactionRow) => boolean;

/** Takes the cells of one table, in the order of its columns. */
export interface TableSink {
  add(cells: readonly Cell[]): void;
}

/** Of the tables that are written. */
export type TableSinks = Readonly<Partial<Record<TableName, TableSink>>>;

/** The rows of blocks, collections and transactions, of each its chosen columns. */
export class TableForm implements PartitionForm {
  readonly files: readonly GrowingFile[];
  readonly #columns: TableColumns;
  readonly #wanted: Wanted;
  readonly #sinks: TableSinks;

  constructor(
    { columns, wanted }: { readonly columns: TableColumns; readonly wanted: Wanted },
    { files, sinks }: { readonly files: readonly GrowingFile[]; readonly sinks: TableSinks },
  ) {
    this.files = files;
    this.#columns = columns;
    this.#wanted = wanted;
    this.#sinks = sinks;
  }

  add(block: BlockRow, [, ...lines]: readonly Buffer[]): void {
    const { blocks, collections, transactions } = this.#sinks;
    blocks?.add(this.#columns.blocks.map(({ of }) => of(block)));
    if (collections !== undefined) {
      for (const row of block.collections) {
        collections.add(this.#columns.collections.map(({ of }) => of(row)));
      }
    }
    if (transactions === undefined) return;
    for (const line of lines) {
      const row = new TransactionRow(block, JSON.parse(line.toString()) as ExportedTransaction);
      if (this.#wanted(row)) transactions.add(this.#columns.transactions.map(({ of }) => of(row)));
    }
  }
}
