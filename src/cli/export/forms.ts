import { exportedLines } from '../../api/index.js';
import { plainOf, type Column, type Table } from './columns.js';
import type { Compression, FileFormat } from '../arguments/flags.js';
import { loadParquet } from './index.js';
import type { GrowingFile } from './partFiles.js';
import { rememberScripts, TransactionRow, type BlockRow } from './TransactionRow.js';

/** Turns the blocks of a partition into files. Their bytes depend only on the blocks. */
export interface PartitionForm {
  readonly files: readonly GrowingFile[];
  add(block: BlockRow): void;
}

/** What the flags ask for, apart from the blocks. */
export interface AskedShape {
  readonly file_format: FileFormat;
  /** For Parquet's pages, else of the files. */
  readonly compression: Compression;
  /** Heights of a partition; partitions begin at multiples of it. */
  readonly partition: number;
  /** Only transactions of this account; null for all. */
  readonly account: string | null;
  readonly role: string | null;
  readonly scripts: boolean;
  /** The columns of each table; null for lines of JSON as `export` writes them without `--columns`. */
  readonly columns: Readonly<Record<string, readonly string[]>> | null;
}

export interface FormOptions {
  /** Check the compression first. */
  readonly shape: AskedShape;
  /** `undefined`: lines as `export` writes them without `--columns`. */
  readonly tables: readonly Table[] | undefined;
  /** Whether a transaction is wanted, by its wire form. `undefined`: every one is, and so are the lines of blocks. */
  readonly wanted: ((wire: Buffer) => boolean) | undefined;
}

/** Loads what the format needs, and returns a function that begins the files of one partition. */
export async function formMaker({ shape, tables, wanted }: FormOptions): Promise<() => PartitionForm> {
  const { compression, file_format: format, scripts } = shape;
  if (tables === undefined) {
    return () => {
      const file = textFile(LINES);
      const add = (block: BlockRow): void => {
        for (const line of exportedLines(block, { wanted, scripts })) file.add(line);
      };
      return { files: [file], add };
    };
  }
  const scriptOf = rememberScripts();
  const transactionsOf = function* ({ rows }: BlockRow): Generator<TransactionRow> {
    for (const collection of rows)
      for (let index = 0; index < collection.transactions; index += 1) {
        const row = new TransactionRow(collection, index, scriptOf);
        if (wanted === undefined || wanted(row.wire)) yield row;
      }
  };
  const parquet = format === 'parquet' ? await loadParquet() : undefined;
  const rowsOf: Readonly<Record<Table['name'], (block: BlockRow) => Iterable<unknown>>> = {
    blocks: (block) => [block],
    collections: (block) => block.rows,
    transactions: transactionsOf,
  };
  return () => {
    // Lines of JSON are in one file for all tables.
    const lines = textFile(LINES);
    const opened = tables.map(({ columns, name: table }) => {
      const rows = rowsOf[table];
      if (parquet !== undefined) {
        const file = parquet.growParquet(table, columns, compression);
        return { file, put: file.add, rows };
      }
      const isCsv = format === 'csv';
      const file = isCsv ? textFile(table, `${columns.map(({ name }) => name).join(',')}\n`) : lines;
      const lineFrom = isCsv ? csvLine(columns) : jsonLine(table, columns);
      return { file, put: (row: never) => file.add(lineFrom(row)), rows };
    });
    return {
      files: [...new Set(opened.map(({ file }) => file))],
      add: (block) => {
        for (const { put, rows } of opened) for (const row of rows(block)) put(row as never);
      },
    };
  };
}

/** Text is handed on in pieces of about this length. */
const PIECE_BYTES = 1024 * 1024;

function textFile(table: string, head = '') {
  let text = head;
  let rows = 0;
  return {
    table,
    rows: (): number => rows,
    add: (line: string): void => {
      text += line;
      rows += 1;
    },
    take: (isLast: boolean): Uint8Array | undefined => {
      if (text.length < PIECE_BYTES && !isLast) return undefined;
      const bytes = Buffer.from(text);
      text = '';
      return bytes;
    },
  };
}

export const LINES = 'lines';

const kinds = { blocks: 'block', collections: 'collection', transactions: 'transaction' } as const;

function jsonLine(table: Table['name'], columns: readonly Column[]): (row: never) => string {
  const members = columns.map((column) => [`,${JSON.stringify(column.name)}:`, plainOf(column)] as const);
  return (row) => {
    let line = `{"kind":"${kinds[table]}"`;
    for (const [key, plain] of members) line += key + JSON.stringify(plain(row));
    return `${line}}\n`;
  };
}

/**
 * Makes a line of CSV as in RFC 4180, but with a line feed at its end. An empty field is null, two quotes are an empty text; lists
 * are JSON.
 */
function csvLine(columns: readonly Column[]): (row: never) => string {
  const fields = columns.map(plainOf);
  return (row) => `${fields.map((plain) => csvField(plain(row))).join(',')}\n`;
}

const MARKS = /[",\r\n]/;

function csvField(value: unknown): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  // A reader would misread these without quotes.
  const needsQuotes = text === '' || MARKS.test(text) || text.trim().length < text.length;
  return needsQuotes ? `"${text.replaceAll('"', '""')}"` : text;
}
