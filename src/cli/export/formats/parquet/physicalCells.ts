import type { Cell, ColumnShape, SignatureCell } from '../../tables/column.js';

/** Size of a cell that has no length. */
const CELL_BYTES = 8;
/** Few accounts make most signatures. */
const MAX_ADDRESSES = 10_000;

type Items = readonly (string | Buffer | SignatureCell)[];

/**
 * Converts the cells of a column to what the library takes. It takes 64-bit integers only as bigint. In a column without a
 * dictionary it encodes text byte by byte, which costs more than everything else there: such text is passed as bytes.
 */
export function physicalOf({ type, isScattered }: ColumnShape): (cell: Cell) => unknown {
  if (type === 'integer') return integers();
  if (type === 'signatures') return signatures();
  if (type === 'text' && isScattered) return (cell) => (typeof cell === 'string' ? Buffer.from(cell) : cell);
  return (cell) => cell;
}

/** All rows of a block have one height. */
function integers(): (cell: Cell) => unknown {
  let last: Cell = 0;
  let asBigint = 0n;
  return (cell) => {
    if (typeof cell !== 'number') return cell;
    if (cell !== last) asBigint = BigInt(cell);
    last = cell;
    return asBigint;
  };
}

function signatures(): (cell: Cell) => unknown {
  const addresses = new Map<string, Buffer>();
  const bytesOf = (address: string): Buffer => {
    const known = addresses.get(address);
    if (known !== undefined) return known;
    const bytes = Buffer.from(address);
    if (addresses.size >= MAX_ADDRESSES) addresses.clear();
    addresses.set(address, bytes);
    return bytes;
  };
  return (cell) =>
    Array.isArray(cell)
      ? (cell as readonly SignatureCell[]).map(({ address, key_index, signature, extension_data }) => ({
          address: bytesOf(address),
          key_index: BigInt(key_index),
          signature,
          extension_data,
        }))
      : cell;
}

/** Roughly what a cell holds in memory. */
export function sizeOf(cell: Cell): number {
  if (typeof cell === 'string' || Buffer.isBuffer(cell)) return cell.length;
  if (!Array.isArray(cell)) return CELL_BYTES;
  let size = CELL_BYTES;
  for (const item of cell as Items) size += itemSize(item);
  return size;
}

function itemSize(item: string | Buffer | SignatureCell): number {
  if (typeof item === 'string' || Buffer.isBuffer(item)) return item.length;
  return CELL_BYTES + item.address.length + item.signature.length + (item.extension_data?.length ?? 0);
}
