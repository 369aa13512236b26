import type { Cell, Column } from '../tables/column.js';
import type { BlockRow } from '../tables/BlockRow.js';
import { ScriptMemory, TransactionRow } from '../tables/TransactionRow.js';
import type { TableColumns, TableName } from '../tables/tableColumns.js';
import type { GrowingFile, PartitionForm } from './PartitionForm.js';

/** Whether a transaction is wanted. */
export type Wanted = (row: TransactionRow) => boolean;

/** Takes the cells of one table, in the order of its columns. The list is used again for the next row. */
export interface TableSink {
  add(cells: readonly Cell[]): void;
}

/** The sinks of the tables that are written. */
export type TableSinks = Readonly<Partial<Record<TableName, TableSink>>>;

/** Writes rows of blocks, collections and transactions, with the chosen columns of each table. */
export class TableForm implements PartitionForm {
  readonly files: readonly GrowingFile[];
  readonly #columns: TableColumns;
  readonly #wanted: Wanted;
  readonly #sinks: TableSinks;
  readonly #scripts = new ScriptMemory();
  readonly #cells: { readonly [Table in TableName]: Cell[] } = {
    blocks: [],
    collections: [],
    transactions: [],
  };

  constructor(
    { columns, wanted }: { readonly columns: TableColumns; readonly wanted: Wanted },
    { files, sinks }: { readonly files: readonly GrowingFile[]; readonly sinks: TableSinks },
  ) {
    this.files = files;
    this.#columns = columns;
    this.#wanted = wanted;
    this.#sinks = sinks;
  }

  add(block: BlockRow): void {
    const { blocks, collections, transactions } = this.#sinks;
    const columns = this.#columns;
    const cells = this.#cells;
    blocks?.add(cellsOf(block, columns.blocks, cells.blocks));
    if (collections !== undefined) {
      for (const row of block.collections) {
        collections.add(cellsOf(row, columns.collections, cells.collections));
      }
    }
    if (transactions === undefined) return;
    for (const collection of block.collections) {
      for (let index = 0; index < collection.transactions; index += 1) {
        const row = new TransactionRow(collection, index, this.#scripts);
        if (this.#wanted(row)) transactions.add(cellsOf(row, columns.transactions, cells.transactions));
      }
    }
  }
}

/** Reuses `cells`: a new list for each of a million rows would be most of the garbage. */
function cellsOf<Row>(row: Row, columns: readonly Column<Row>[], cells: Cell[]): readonly Cell[] {
  cells.length = 0;
  for (const { of } of columns) cells.push(of(row));
  return cells;
}
