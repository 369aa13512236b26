import type { ColumnShape } from '../tables/column.js';
import type { TableName } from '../tables/tableColumns.js';
import { plainOf } from './plainOf.js';
import type { TableSink } from './TableForm.js';
import type { TextFile } from './TextFile.js';

const kinds = { blocks: 'block', collections: 'collection', transactions: 'transaction' } as const;

/** A line of JSON for a row: its kind, then its columns. */
export function flatSink(file: TextFile, table: TableName, columns: readonly ColumnShape[]): TableSink {
  const members = columns.map(({ name, type }) => ({
    key: `,${JSON.stringify(name)}:`,
    plain: plainOf({ type }),
  }));
  return {
    add: (cells) => {
      let line = `{"kind":"${kinds[table]}"`;
      for (const [index, { key, plain }] of members.entries()) {
        line += key + JSON.stringify(plain(cells[index] ?? null));
      }
      file.addText(`${line}}\n`);
    },
  };
}
