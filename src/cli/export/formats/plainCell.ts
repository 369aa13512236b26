import type { Cell, ColumnType, SignatureCell } from '../tables/column.js';
import { timeText } from '../tables/timeOf.js';

type PlainSignature = Readonly<Record<keyof SignatureCell, string | number | null>>;
/** What JSON can say. */
export type Plain = string | number | null | readonly (string | PlainSignature)[];

/** A cell for formats of text: bytes are base64, integers of 64 bits without a sign decimal, as in lines of JSON. */
export function plainCell(type: ColumnType, cell: Cell): Plain {
  if (typeof cell === 'bigint') return type === 'time' ? timeText(cell) : String(cell);
  if (Buffer.isBuffer(cell)) return base64(cell);
  if (Array.isArray(cell)) return (cell as readonly (string | Buffer | SignatureCell)[]).map(plainItem);
  return cell as string | number | null;
}

function plainItem(item: string | Buffer | SignatureCell): string | PlainSignature {
  if (typeof item === 'string') return item;
  if (Buffer.isBuffer(item)) return base64(item);
  const { signature, extension_data } = item;
  return {
    ...item,
    signature: base64(signature),
    extension_data: extension_data === null ? null : base64(extension_data),
  };
}

function base64(bytes: Buffer): string {
  return bytes.toString('base64');
}
