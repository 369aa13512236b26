import { exportedBlock, exportedTransaction, lineOf } from '../../api/index.js';
import type { Compression, FileFormat } from '../arguments/flags.js';
import { cellForms, tableNames } from './columns.js';
import type { Cell, Column, ColumnShape, Plain, TableColumns, TableName } from './columns.js';
import { loadParquet } from './index.js';
import { ScriptMemory, TransactionRow } from './TransactionRow.js';
import type { BlockRow } from './TransactionRow.js';

/** One file of a partition, as it grows. */
export interface GrowingFile {
  readonly table: string;
  /** Rows so far. */
  readonly rows: number;
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

/** Text is handed on in pieces of about this length. */
export const PIECE_BYTES = 1024 * 1024;

/** A file of text, a row at a time. */
class TextFile implements GrowingFile {
  readonly table: string;
  rows = 0;
  #pieces: string[] = [];
  #characters = 0;

  constructor(table: string, head = '') {
    this.table = table;
    this.#pieces.push(head);
  }

  addText(text: string): void {
    this.#pieces.push(text);
    this.#characters += text.length;
    this.rows += 1;
  }

  take(): Uint8Array | undefined {
    return this.#characters < PIECE_BYTES ? undefined : this.finish();
  }

  finish(): Uint8Array {
    const text = this.#pieces.join('');
    this.#pieces = [];
    this.#characters = 0;
    return Buffer.from(text);
  }
}

export const LINES = 'lines';

interface LineOptions {
  /** `undefined`: all transactions, and the lines of blocks too. */
  readonly wanted: Wanted | undefined;
  readonly scripts: boolean;
}

/** The lines of `export`, with or without scripts, of all or some transactions. */
class LineForm implements PartitionForm {
  readonly files: readonly TextFile[];
  readonly #file = new TextFile(LINES);
  readonly #options: LineOptions;
  readonly #scripts = new ScriptMemory();

  constructor(options: LineOptions) {
    this.#options = options;
    this.files = [this.#file];
  }

  add({ entry, collections }: BlockRow): void {
    const { wanted, scripts } = this.#options;
    const block = exportedBlock(entry);
    if (wanted === undefined) this.#file.addText(lineOf(block));
    for (const row of collections) {
      for (let index = 0; index < row.transactions; index += 1) {
        if (wanted?.(new TransactionRow(row, index, this.#scripts)) === false) continue;
        const line = exportedTransaction(entry, block, { collection: row.index, index });
        this.#file.addText(scripts ? lineOf(line) : withoutScript(line));
      }
    }
  }
}

function withoutScript(line: ReturnType<typeof exportedTransaction>): string {
  const transaction = { ...line.transaction, script: undefined };
  return `${JSON.stringify({ ...line, transaction })}\n`;
}

/** Whether a transaction is wanted. */
export type Wanted = (row: TransactionRow) => boolean;

/** Takes the cells of one table, in the order of its columns. The list is used again for the next row. */
export interface TableSink {
  add(cells: readonly Cell[]): void;
}

/** The sinks of the tables that are written. */
type TableSinks = Readonly<Partial<Record<TableName, TableSink>>>;

/** Writes rows of blocks, collections and transactions, with the chosen columns of each table. */
class TableForm implements PartitionForm {
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

const kinds = { blocks: 'block', collections: 'collection', transactions: 'transaction' } as const;

/** A line of JSON for a row: its kind, then its columns. */
function flatSink(file: TextFile, table: TableName, columns: readonly ColumnShape[]): TableSink {
  const members = columns.map(({ name, type }) => ({
    key: `,${JSON.stringify(name)}:`,
    plain: cellForms[type].plain(),
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
    this.#plain = columns.map(({ type }) => cellForms[type].plain());
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
