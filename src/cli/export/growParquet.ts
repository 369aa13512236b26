import { ByteWriter, ParquetWriter, type ColumnSource, type SchemaElement } from 'hyparquet-writer';
import type { Compression } from '../arguments/flags.js';
import { cellForms, type Column, type SignatureCell } from './columns.js';
import { pageCompressor } from './compression.js';
import { madeBy } from './exportSource.js';
import { remembering } from './TransactionRow.js';
import type { GrowingFile } from './partFiles.js';

/** A row group ends with the row that reaches one of these. Memory use is a small multiple of the bytes. */
const GROUP_ROWS = 50_000;
const GROUP_BYTES = 32 * 1024 * 1024;
const codecs = { none: 'UNCOMPRESSED', gzip: 'GZIP', zstd: 'ZSTD' } as const;

/** A Parquet file, a row group at a time. The compression is checked before. */
export function growParquet(
  table: string,
  columns: readonly Column[],
  compression: Compression,
): GrowingFile & { readonly add: (row: never) => void } {
  const codec = codecs[compression];
  const compress = pageCompressor(compression);
  const physical = columns.map(physicalOf);
  const bytes = new ByteWriter();
  const writer = new ParquetWriter({
    writer: bytes,
    schema: schemaOf(columns),
    codec,
    createdBy: madeBy,
    compressors: compress === undefined ? {} : { [codec]: compress },
  });
  let values: unknown[][] = columns.map(() => []);
  let rows = 0;
  let held = 0;
  let heldBytes = 0;

  const endGroup = (): void => {
    const columnData = columns.map(({ name, trait, type }, index): ColumnSource => {
      const source = { name, data: values[index] ?? [] };
      if (trait === 'scattered') return { ...source, encoding: 'PLAIN', statistics: false };
      // Queries do not select ranges of binary values or scripts.
      return { ...source, statistics: type !== 'binary' && name !== 'script' };
    });
    // Not asynchronous here: the bytes stay in memory.
    void writer.write({ columnData, rowGroupSize: held });
    values = columns.map(() => []);
    held = heldBytes = 0;
  };
  return {
    table,
    rows: () => rows,
    add: (row) => {
      for (const [index, { of }] of columns.entries()) {
        const cell = of(row);
        values[index]?.push(physical[index]?.(cell));
        heldBytes += sizeOf(cell);
      }
      held += 1;
      rows += 1;
      if (held >= GROUP_ROWS || heldBytes >= GROUP_BYTES) endGroup();
    },
    /** The groups that have ended; rows of the current group stay. */
    take: (isLast) => {
      if (isLast && held > 0) endGroup();
      if (isLast) void writer.finish();
      if (bytes.index === 0) return undefined;
      // A copy: the library reuses the buffer.
      const taken = bytes.getBytes().slice();
      bytes.index = 0;
      return taken;
    },
  };
}

/** Parquet's schema of a table: a root, then the columns, each followed by its children. */
function schemaOf(columns: readonly Column[]): SchemaElement[] {
  const elements = columns.flatMap(({ name, trait, type }) => {
    const [own, ...children] = cellForms[type].schema;
    const repetition_type = trait === 'nullable' ? 'OPTIONAL' : 'REQUIRED';
    return [{ name, ...own, repetition_type } as const, ...children];
  });
  return [{ name: 'root', num_children: columns.length }, ...elements];
}

/** Few accounts make most signatures. */
const MAX_ADDRESSES = 10_000;

function physicalOf({ trait, type }: Column): (cell: unknown) => unknown {
  // The library encodes text byte by byte, which costs more than everything else in a column without a dictionary; and it
  // recognizes repeated bytes by identity.
  const bytesOf = remembering(MAX_ADDRESSES, (text) => Buffer.from(text));
  const isBytes = type === 'text' && trait === 'scattered';
  const physical = isBytes ? (cell: string) => Buffer.from(cell) : cellForms[type].physical;
  return (cell) => (cell === null || physical === undefined ? cell : physical(cell as never, bytesOf));
}

/** Size of a cell that has no length. */
const CELL_BYTES = 8;

/** Roughly what a cell holds in memory. */
function sizeOf(cell: unknown): number {
  if (typeof cell === 'string' || Buffer.isBuffer(cell)) return cell.length;
  if (!Array.isArray(cell)) return CELL_BYTES;
  let size = CELL_BYTES;
  for (const item of cell as readonly (string | Buffer | SignatureCell)[]) {
    const isBytes = typeof item === 'string' || Buffer.isBuffer(item);
    const parts = isBytes ? [item] : [item.address, item.signature, item.extension_data ?? ''];
    size += parts.reduce((sum, { length }) => sum + length, isBytes ? 0 : CELL_BYTES);
  }
  return size;
}
