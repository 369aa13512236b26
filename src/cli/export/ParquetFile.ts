import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import type { ColumnSource, SchemaElement } from 'hyparquet-writer';
import type { Compression } from '../arguments/flags.js';
import { cellForms } from './columns.js';
import type { Cell, ColumnShape, SignatureCell } from './columns.js';
import { pageCompressor } from './compression.js';
import type { GrowingFile } from './forms.js';

/** A row group ends with the row that reaches one of these. Memory use is a small multiple of the bytes. */
const GROUP_ROWS = 50_000;
const GROUP_BYTES = 32 * 1024 * 1024;
const codecs = { none: 'UNCOMPRESSED', gzip: 'GZIP', zstd: 'ZSTD' } as const;

/** A Parquet file, a row group at a time. */
export class ParquetFile implements GrowingFile {
  readonly table: string;
  rows = 0;
  readonly #columns: readonly ColumnShape[];
  readonly #physical: readonly ((cell: Cell) => unknown)[];
  readonly #bytes = new ByteWriter();
  readonly #writer: ParquetWriter;
  #cells: unknown[][];
  #held = 0;
  #heldBytes = 0;

  constructor(
    // The compression is checked before; `program` has its name and version.
    {
      compression,
      program,
      table,
    }: { readonly table: string; readonly compression: Compression; readonly program: string },
    columns: readonly ColumnShape[],
  ) {
    this.table = table;
    const codec = codecs[compression];
    const compress = pageCompressor(compression);
    this.#columns = columns;
    this.#physical = columns.map(physicalOf);
    this.#cells = columns.map(() => []);
    this.#writer = new ParquetWriter({
      writer: this.#bytes,
      schema: schemaOf(columns),
      codec,
      createdBy: program,
      compressors: compress === undefined ? {} : { [codec]: compress },
    });
  }

  add(cells: readonly Cell[]): void {
    for (const [index, cell] of cells.entries()) {
      this.#cells[index]?.push(this.#physical[index]?.(cell));
      this.#heldBytes += sizeOf(cell);
    }
    this.#held += 1;
    this.rows += 1;
    if (this.#held >= GROUP_ROWS || this.#heldBytes >= GROUP_BYTES) this.#endGroup();
  }

  /** Returns the groups that have ended; rows of the current group stay. */
  take(): Uint8Array | undefined {
    return this.#bytes.index > 0 ? this.#drain() : undefined;
  }

  finish(): Uint8Array {
    if (this.#held > 0) this.#endGroup();
    void this.#writer.finish();
    return this.#drain();
  }

  #endGroup(): void {
    const columnData = this.#columns.map(({ name, type, isScattered }, index): ColumnSource => {
      const source = { name, data: this.#cells[index] ?? [] };
      if (isScattered) return { ...source, encoding: 'PLAIN', statistics: false };
      // Nobody queries ranges of binary values or scripts.
      return { ...source, statistics: type !== 'binary' && name !== 'script' };
    });
    // Not asynchronous here: the bytes stay in memory.
    void this.#writer.write({ columnData, rowGroupSize: this.#held });
    this.#cells = this.#columns.map(() => []);
    this.#held = 0;
    this.#heldBytes = 0;
  }

  /** A copy: the library reuses the buffer. */
  #drain(): Uint8Array {
    const bytes = this.#bytes.getBytes().slice();
    this.#bytes.index = 0;
    return bytes;
  }
}

/** Parquet's schema of a table: a root, then the columns, each followed by its children. */
function schemaOf(columns: readonly ColumnShape[]): SchemaElement[] {
  const elements = columns.flatMap(({ name, type, isNullable }) => {
    const [own, ...children] = cellForms[type].schema;
    return [{ name, ...own, repetition_type: isNullable ? 'OPTIONAL' : 'REQUIRED' } as const, ...children];
  });
  return [{ name: 'root', num_children: columns.length }, ...elements];
}

/** In a column without a dictionary the library encodes text byte by byte, which costs more than everything else there. */
function physicalOf({ type, isScattered }: ColumnShape): (cell: Cell) => unknown {
  if (type === 'text' && isScattered) return (cell) => (typeof cell === 'string' ? Buffer.from(cell) : cell);
  return cellForms[type].physical?.() ?? ((cell) => cell);
}

/** Size of a cell that has no length. */
const CELL_BYTES = 8;

/** Roughly what a cell holds in memory. */
function sizeOf(cell: Cell): number {
  if (typeof cell === 'string' || Buffer.isBuffer(cell)) return cell.length;
  if (!Array.isArray(cell)) return CELL_BYTES;
  let size = CELL_BYTES;
  for (const item of cell as readonly (string | Buffer | SignatureCell)[]) {
    if (typeof item === 'string' || Buffer.isBuffer(item)) size += item.length;
    else
      size += CELL_BYTES + item.address.length + item.signature.length + (item.extension_data?.length ?? 0);
  }
  return size;
}
