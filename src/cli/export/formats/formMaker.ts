import type { Compression, FileFormat } from '../../arguments/flags.js';
import type { Cell, ColumnShape, SignatureCell } from '../tables/column.js';
import { tableNames } from '../tables/tableColumns.js';
import type { TableColumns, TableName } from '../tables/tableColumns.js';
import { LINES, LineForm } from './LineForm.js';
import { loadParquet } from './parquet/index.js';
import type { GrowingFile, PartitionForm } from './PartitionForm.js';
import { timeText } from '../tables/timeOf.js';
import { TableForm } from './TableForm.js';
import type { TableSink, Wanted } from './TableForm.js';
import { TextFile } from './TextFile.js';

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
  /** `undefined`: lines as `export` writes them without `--columns`. */
  readonly columns: TableColumns | undefined;
  /** `undefined`: every transaction. */
  readonly wanted: Wanted | undefined;
  readonly scripts: boolean;
}

/** Loads what the format needs, and returns a function that begins the files of one partition. */
export async function formMaker(
  /** `program`: its name and version. */
  options: FormOptions & { readonly program: string },
): Promise<() => PartitionForm> {
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

const MARKS = /[",\r\n]/;

/**
 * CSV as in RFC 4180, with a header line, but lines end in a line feed. An empty field is null, two quotes are an empty
 * text; lists are JSON.
 */
class CsvFile extends TextFile implements TableSink {
  readonly #plain: readonly ((cell: Cell) => Plain)[];

  constructor(table: string, columns: readonly ColumnShape[]) {
    super(table, `${columns.map(({ name }) => name).join(',')}\n`);
    this.#plain = columns.map(plainOf);
  }

  add(cells: readonly Cell[]): void {
    let line = '';
    for (let index = 0; index < cells.length; index += 1) {
      line += (index === 0 ? '' : ',') + field(this.#plain[index]?.(cells[index] ?? null) ?? null);
    }
    this.addText(`${line}\n`);
  }
}

function field(value: Plain): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return needsQuotes(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** True for a text that a reader would misread without quotes. */
function needsQuotes(text: string): boolean {
  return text === '' || MARKS.test(text) || text.trim().length < text.length;
}

type PlainSignature = Readonly<Record<keyof SignatureCell, string | number | null>>;
/** A JSON value. */
type Plain = string | number | null | readonly (string | PlainSignature)[];

/** Converts the cells of a column for text formats: bytes to base64, unsigned 64-bit integers to decimal, as in lines of JSON. */
function plainOf({ type }: Pick<ColumnShape, 'type'>): (cell: Cell) => Plain {
  return type === 'time' ? times() : plainCell;
}

/** All rows of a block have one time. */
function times(): (cell: Cell) => Plain {
  let last: Cell = null;
  let text: Plain = null;
  return (cell) => {
    if (cell !== last) text = typeof cell === 'bigint' ? timeText(cell) : null;
    last = cell;
    return text;
  };
}

function plainCell(cell: Cell): Plain {
  if (typeof cell === 'bigint') return String(cell);
  if (Buffer.isBuffer(cell)) return base64(cell);
  if (Array.isArray(cell)) return (cell as readonly (string | Buffer | SignatureCell)[]).map(plainItem);
  return cell as string | number | null;
}

function plainItem(item: string | Buffer | SignatureCell): string | PlainSignature {
  if (typeof item === 'string') return item;
  if (Buffer.isBuffer(item)) return base64(item);
  const { address, key_index, signature, extension_data } = item;
  return {
    address,
    key_index,
    signature: base64(signature),
    extension_data: extension_data === null ? null : base64(extension_data),
  };
}

function base64(bytes: Buffer): string {
  return bytes.toString('base64');
}
