import { ShapeError } from './ShapeError.js';

/** Integers are bigints, keys of maps become text. */
export type Packed =
  null | boolean | bigint | string | Buffer | readonly Packed[] | { readonly [key: string]: Packed };

/** Deeper values are refused. */
const MAX_DEPTH = 16;

/** Decodes MessagePack, as far as Flow's protocol state uses it: no floats, no extensions. Expected errors: `ShapeError`. */
export function decodeMessagePack(bytes: Buffer): Packed {
  let position = 0;
  const take = (length: number): Buffer => {
    if (length > bytes.length - position) throw new ShapeError('packed data ends early');
    position += length;
    return bytes.subarray(position - length, position);
  };
  const unsigned = (length: number): bigint => BigInt(`0x${take(length).toString('hex')}`);
  const size = (length: number): number => take(length).readUIntBE(0, length);
  const items = (count: number, depth: number): Packed[] => Array.from({ length: count }, () => value(depth));
  const entries = (count: number, depth: number): Packed => {
    const map: Record<string, Packed> = {};
    for (let index = 0; index < count; index++) {
      const key = value(depth);
      if (typeof key !== 'string' && typeof key !== 'bigint') throw new ShapeError('a packed key is no text');
      map[String(key)] = value(depth);
    }
    return map;
  };
  const value = (above: number): Packed => {
    const depth = above + 1;
    if (depth > MAX_DEPTH) throw new ShapeError('packed data is nested too deeply');
    const tag = size(1);
    if (tag < 0x80) return BigInt(tag);
    if (tag < 0x90) return entries(tag & 0x0f, depth);
    if (tag < 0xa0) return items(tag & 0x0f, depth);
    if (tag < 0xc0) return take(tag & 0x1f).toString();
    switch (tag) {
      case 0xc0:
        return null;
      case 0xc2:
      case 0xc3:
        return tag === 0xc3;
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return take(size(1 << (tag - 0xc4)));
      case 0xcc:
      case 0xcd:
      case 0xce:
      case 0xcf:
        return unsigned(1 << (tag - 0xcc));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return take(size(1 << (tag - 0xd9))).toString();
      case 0xdc:
      case 0xdd:
        return items(boundedCount(size(tag === 0xdc ? 2 : 4)), depth);
      case 0xde:
      case 0xdf:
        return entries(boundedCount(size(tag === 0xde ? 2 : 4)), depth);
      default:
        throw new ShapeError('packed data has a type that is not known');
    }
  };
  /** Every item takes a byte at least. */
  const boundedCount = (count: number): number => {
    if (count > bytes.length - position) throw new ShapeError('packed data ends early');
    return count;
  };
  return value(0);
}
