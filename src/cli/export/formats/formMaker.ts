import { loadParquet } from './parquet/index.js';
import { tableNames } from '../tables/tableColumns.js';
import type { TableColumns, TableName } from '../tables/tableColumns.js';
import type { Compression, FileFormat } from '../../arguments/flags.js';
import { CsvFile } from './CsvFile.js';
import { LineForm, LINES } from './LineForm.js';
import type { GrowingFile, PartitionForm } from './PartitionForm.js';
import { TableForm } from './TableForm.js';
import type { TableSink, Wanted } from './TableForm.js';
import { TextFile } from './TextFile.js';
import type { ColumnShape } from '../tables/column.js';
import { plainOf } from './plainOf.js';

const kinds = { blocks: 'block', collections: 'collection', transactions: 'transaction' } as const;

/** A line of JSON for a row: its kind, then its columns. */
function flatSink(file: TextFile, table: TableName, columns: readonly ColumnShape[]): TableSink {
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

export interface FormOptions {
  readonly format: FileFormat;
  /** For Parquet's pages. Check it first. */
  readonly compression: Compression;
  /** Name and version of the program. */
  readonly program: string;
  /** `undefined`: lines as `export` writes them without `--columns`. */
  readonly columns: TableColumns | undefined;
  /** `undefined`: every transaction. */
  readonly wanted: Wanted | undefined;
  readonly scripts: boolean;
}

/** Loads what the format needs, and returns a function that begins the files of one partition. */
export async function formMaker(options: FormOptions): Promise<() => PartitionForm> {
  const { format, columns } = options;
  if (columns === undefined) return () => new LineForm(options);
  const rows = { columns, wanted: options.wanted ?? (() => true) };
  const chosen = tableNames.filter((table) => columns[table].length > 0);
  const formOf = (files: readonly (GrowingFile & TableSink)[]): PartitionForm => {
    const sinks = Object.fromEntries(files.map((file) => [file.table, file]));
    return new TableForm(rows, { files, sinks });
  };
  switch (format) {
    case 'ndjson':
      return () => {
        const file = new TextFile(LINES);
        const sinks = chosen.map((table) => [table, flatSink(file, table, columns[table])] as const);
        return new TableForm(rows, { files: [file], sinks: Object.fromEntries(sinks) });
      };
    case 'csv':
      return () => formOf(chosen.map((table) => new CsvFile(table, columns[table])));
    case 'parquet': {
      const { ParquetFile } = await loadParquet();
      return () => formOf(chosen.map((table) => new ParquetFile({ ...options, table }, columns[table])));
    }
  }
}
