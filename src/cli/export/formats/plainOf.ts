import type { Cell, ColumnShape, SignatureCell } from '../tables/column.js';
import { timeText } from '../tables/timeOf.js';

type PlainSignature = Readonly<Record<keyof SignatureCell, string | number | null>>;
/** A JSON value. */
export type Plain = string | number | null | readonly (string | PlainSignature)[];

/** Converts the cells of a column for text formats: bytes to base64, unsigned 64-bit integers to decimal, as in lines of JSON. */
export function plainOf({ type }: Pick<ColumnShape, 'type'>): (cell: Cell) => Plain {
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
