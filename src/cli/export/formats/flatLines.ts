import type { ColumnShape } from '../tables/column.js';
import type { TableName } from '../tables/tableColumns.js';
import { plainCell } from './plainCell.js';
import type { TableSink } from './TableForm.js';
import type { TextFile } from './TextFile.js';

const kinds = { blocks: 'block', collections: 'collection', transactions: 'transaction' } as const;

/** A line of JSON for a row: its kind, then its columns. */
export function flatSink(file: TextFile, table: TableName, columns: readonly ColumnShape[]): TableSink {
  return {
    add: (cells) => {
      const members = columns.map(({ name, type }, index) => [name, plainCell(type, cells[index] ?? null)]);
      file.addText(`${JSON.stringify({ kind: kinds[table], ...Object.fromEntries(members) })}\n`);
    },
  };
}
