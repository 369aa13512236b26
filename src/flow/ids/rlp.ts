import { RlpWriter } from './RlpWriter.js';

/** What RLP can hold. Numbers are unsigned: safe integers or bigints below 2^64; text is UTF-8. */
export type RlpItem = Uint8Array | string | number | bigint | boolean | readonly RlpItem[];

const FIRST_CAPACITY_BYTES = 1024;
const HEADER_BYTES_MAX = 9;
const TWO_POW_32 = 0x1_0000_0000;
const LOW_32_BITS = 0xffff_ffffn;

/** Any value as RLP, in memory of its own. For values that are hashed now and then; hot paths write to an `RlpWriter`. */
export function encodeRlp(item: RlpItem): Uint8Array {
  const writer = new RlpWriter(FIRST_CAPACITY_BYTES);
  write(writer, item);
  return writer.written(0, writer.writtenBytes);
}

function write(writer: RlpWriter, item: RlpItem): void {
  if (typeof item === 'number' || typeof item === 'bigint' || typeof item === 'boolean') {
    writer.reserve(HEADER_BYTES_MAX);
    if (typeof item === 'bigint') writer.integer(Number(item & LOW_32_BITS), Number(item >> 32n));
    else writer.integer(Number(item) % TWO_POW_32, Math.floor(Number(item) / TWO_POW_32));
  } else if (typeof item === 'string' || item instanceof Uint8Array) {
    const bytes = typeof item === 'string' ? Buffer.from(item) : item;
    writer.reserve(bytes.length + HEADER_BYTES_MAX);
    writer.string(bytes);
  } else {
    const before = writer.writtenBytes;
    for (const each of item.toReversed()) write(writer, each);
    writer.reserve(HEADER_BYTES_MAX);
    writer.list(writer.position + writer.writtenBytes - before);
  }
}
