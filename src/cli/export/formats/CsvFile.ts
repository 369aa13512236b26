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
  /** All rows of a block have the same. */
  #time: { readonly of: Cell; readonly text: string } = { of: null, text: '' };

  constructor(table: string, columns: readonly ColumnShape[]) {
    super(table, `${columns.map(({ name }) => name).join(',')}\n`);
    this.#columns = columns;
  }

  add(cells: readonly Cell[]): void {
    let line = '';
    for (const [index, { type }] of this.#columns.entries()) {
      const cell = cells[index] ?? null;
      const text = type === 'time' ? this.#timeOf(cell) : field(plainCell(type, cell));
      line += index === 0 ? text : `,${text}`;
    }
    this.addText(`${line}\n`);
  }

  #timeOf(cell: Cell): string {
    if (cell !== this.#time.of) this.#time = { of: cell, text: field(plainCell('time', cell)) };
    return this.#time.text;
  }
}

function field(value: Plain): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
