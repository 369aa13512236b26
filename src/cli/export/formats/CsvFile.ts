import type { Cell, ColumnShape } from '../tables/column.js';
import { plainCell } from './plainCell.js';
import type { Plain } from './plainCell.js';
import type { TableSink } from './TableForm.js';
import { TextFile } from './TextFile.js';

/** What must stand between quotes, so that no reader takes it for something else. */
const NEEDS_QUOTES = /[",\r\n]|^\s|\s$|^$/;

/**
 * CSV as RFC 4180 has it, with a head, but for lines that end in a line feed. Nothing at all between two commas is
 * null, two quotes are an empty text; lists are JSON.
 */
export class CsvFile extends TextFile implements TableSink {
  readonly #columns: readonly ColumnShape[];

  constructor(table: string, columns: readonly ColumnShape[]) {
    super(table, `${columns.map(({ name }) => name).join(',')}\n`);
    this.#columns = columns;
  }

  add(cells: readonly Cell[]): void {
    const fields = this.#columns.map(({ type }, index) => field(plainCell(type, cells[index] ?? null)));
    this.addText(`${fields.join(',')}\n`);
  }
}

function field(value: Plain): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
