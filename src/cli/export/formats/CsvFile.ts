import type { Cell, ColumnShape } from '../tables/column.js';
import { plainOf } from './plainOf.js';
import type { Plain } from './plainOf.js';
import type { TableSink } from './TableForm.js';
import { TextFile } from './TextFile.js';

const MARKS = /[",\r\n]/;

/**
 * CSV as in RFC 4180, with a header line, but lines end in a line feed. An empty field is null, two quotes are an empty
 * text; lists are JSON.
 */
export class CsvFile extends TextFile implements TableSink {
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
