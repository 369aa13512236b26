import { exportedBlock, exportedTransaction, lineOf } from '../../api/index.js';
import { cellForms, tableNames } from './columns.js';
import type { Cell, Column, ColumnShape, Plain, TableColumns, TableName } from './columns.js';
import type { AskedShape } from './exportDirectory.js';
import { loadParquet } from './index.js';
import { ScriptMemory, TransactionRow } from './TransactionRow.js';
import type { BlockRow } from './TransactionRow.js';

/** One file of a partition, as it grows. */
export interface GrowingFile {
  readonly table: string;
  /** Rows so far. */
  rows(): number;
  /**
   * The bytes that are ready, once there are enough to be written; call it after every block. Nothing changes them
   * afterwards.
   */
  take(): Uint8Array | undefined;
  /** The rest of the file. */
  finish(): Uint8Array;
}

/** Turns the blocks of a partition into files. Their bytes depend only on the blocks. */
export interface PartitionForm {
  readonly files: readonly GrowingFile[];
  add(block: BlockRow): void;
}

/** How blocks become files. */
export interface FormOptions {
  /** Check the compression first. */
  readonly shape: AskedShape;
  /** `undefined`: lines as `export` writes them without `--columns`. */
  readonly columns: TableColumns | undefined;
  /** Whether a transaction is wanted. `undefined`: every one is, and so are the lines of blocks. */
  readonly wanted: ((row: TransactionRow) => boolean) | undefined;
}

/** Loads what the format needs, and returns a function that begins the files of one partition. `program`: name and version. */
export async function formMaker(options: FormOptions, program: string): Promise<() => PartitionForm> {
  const { columns } = options;
  const { compression, file_format: format } = options.shape;
  if (columns === undefined) return () => lineForm(options);
  const parquet = format === 'parquet' ? await loadParquet() : undefined;
  const chosen = tableNames.filter((table) => columns[table].length > 0);
  return () => {
    // Lines of JSON are in one file for all tables.
    const lines = textFile(LINES);
    const open = (table: TableName): { readonly file: GrowingFile; readonly sink: Sink } => {
      const shapes = columns[table];
      if (format === 'ndjson') return { file: lines, sink: flatSink(lines, table, shapes) };
      if (parquet === undefined) {
        const file = textFile(table, `${shapes.map(({ name }) => name).join(',')}\n`);
        return { file, sink: csvSink(file, shapes) };
      }
      const file = parquet.growParquet({ table, compression, program }, shapes);
      return { file, sink: file.add };
    };
    const opened = chosen.map((table) => ({ table, ...open(table) }));
    const sinks = Object.fromEntries(opened.map(({ table, sink }) => [table, sink]));
    return {
      files: [...new Set(opened.map(({ file }) => file))],
      add: rowWriter(options, columns, sinks),
    };
  };
}

/** Text is handed on in pieces of about this length. */
const PIECE_BYTES = 1024 * 1024;

/** A file of text, a row at a time. */
function textFile(table: string, head = '') {
  let pieces = [head];
  let characters = 0;
  let rows = 0;
  const finish = (): Uint8Array => {
    const text = pieces.join('');
    pieces = [];
    characters = 0;
    return Buffer.from(text);
  };
  return {
    table,
    rows: (): number => rows,
    add: (text: string): void => {
      pieces.push(text);
      characters += text.length;
      rows += 1;
    },
    take: (): Uint8Array | undefined => (characters < PIECE_BYTES ? undefined : finish()),
    finish,
  };
}
type TextFile = ReturnType<typeof textFile>;

export const LINES = 'lines';

/** The lines of `export`, with or without scripts, of all or some transactions. */
function lineForm({ shape: { scripts }, wanted }: FormOptions): PartitionForm {
  const file = textFile(LINES);
  const memory = new ScriptMemory();
  const add = ({ entry, collections }: BlockRow): void => {
    const block = exportedBlock(entry);
    if (wanted === undefined) file.add(lineOf(block));
    for (const row of collections) {
      for (let index = 0; index < row.transactions; index += 1) {
        if (wanted?.(new TransactionRow(row, index, memory)) === false) continue;
        const line = exportedTransaction(entry, block, { collection: row.index, index });
        file.add(scripts ? lineOf(line) : withoutScript(line));
      }
    }
  };
  return { files: [file], add };
}

function withoutScript(line: ReturnType<typeof exportedTransaction>): string {
  const transaction = { ...line.transaction, script: undefined };
  return `${JSON.stringify({ ...line, transaction })}\n`;
}

/** Takes the cells of one table, in the order of its columns. The list is used again for the next row. */
type Sink = (cells: readonly Cell[]) => void;

/** Writes rows of blocks, collections and transactions to the sinks of the tables that are wanted. */
function rowWriter(
  { wanted }: FormOptions,
  columns: TableColumns,
  { blocks, collections, transactions }: Readonly<Partial<Record<TableName, Sink>>>,
): (block: BlockRow) => void {
  const scripts = new ScriptMemory();
  /** A new list for each of a million rows would be most of the garbage. */
  const cells: Cell[] = [];
  const put = <Row>(row: Row, of: readonly Column<Row>[], sink: Sink): void => {
    cells.length = of.length;
    for (let at = 0; at < of.length; at += 1) cells[at] = of[at]?.of(row) ?? null;
    sink(cells);
  };
  return (block) => {
    if (blocks !== undefined) put(block, columns.blocks, blocks);
    if (collections !== undefined)
      for (const row of block.collections) put(row, columns.collections, collections);
    if (transactions === undefined) return;
    for (const collection of block.collections) {
      for (let index = 0; index < collection.transactions; index += 1) {
        const row = new TransactionRow(collection, index, scripts);
        if (wanted === undefined || wanted(row)) put(row, columns.transactions, transactions);
      }
    }
  };
}

const kinds = { blocks: 'block', collections: 'collection', transactions: 'transaction' } as const;

/** A line of JSON for a row: its kind, then its columns. */
function flatSink(file: TextFile, table: TableName, columns: readonly ColumnShape[]): Sink {
  const members = columns.map(({ name, type }) => ({
    key: `,${JSON.stringify(name)}:`,
    plain: cellForms[type].plain(),
  }));
  return (cells) => {
    let line = `{"kind":"${kinds[table]}"`;
    for (const [index, { key, plain }] of members.entries()) {
      line += key + JSON.stringify(plain(cells[index] ?? null));
    }
    file.add(`${line}}\n`);
  };
}

/**
 * CSV as in RFC 4180, below a header line, but lines end in a line feed. An empty field is null, two quotes are an empty
 * text; lists are JSON.
 */
function csvSink(file: TextFile, columns: readonly ColumnShape[]): Sink {
  const fields = columns.map(({ type }) => cellForms[type].plain());
  return (cells) => {
    let line = '';
    for (const [index, plain] of fields.entries()) {
      line += (index === 0 ? '' : ',') + csvField(plain(cells[index] ?? null));
    }
    file.add(`${line}\n`);
  };
}

const MARKS = /[",\r\n]/;

function csvField(value: Plain): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  // A reader would misread these without quotes.
  const needsQuotes = text === '' || MARKS.test(text) || text.trim().length < text.length;
  return needsQuotes ? `"${text.replaceAll('"', '""')}"` : text;
}
