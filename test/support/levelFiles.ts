/** The formats of LevelDB's files as far as tests make such files themselves: sound by their checksums, whatever they say. */

/** CRC-32C of some bytes, turned and shifted as LevelDB stores it. Goes on from `before`, the CRC of what stands before. */
function crc32c(bytes: Uint8Array, before = 0): number {
  let crc = ~before;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return ~crc >>> 0;
}

function masked(crc: number): number {
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}

const LOG_HEADER_BYTES = 7;
export const LOG_BLOCK_BYTES = 32_768;
/** What a part of a log holds: a whole record, or the first, a middle or the last part of one. */
export const logParts = { whole: 1, first: 2, middle: 3, last: 4 };

/** A log or manifest of these records, each of which fits into a block of the format. */
export function logFile(...records: readonly Uint8Array[]): Buffer {
  return Buffer.concat(records.map((data) => logPart(logParts.whole, data)));
}

/** A part of a log as it stands in the file. */
export function logPart(type: number, data: Uint8Array): Buffer {
  const part = Buffer.concat([Buffer.alloc(LOG_HEADER_BYTES), data]);
  part.writeUInt16LE(data.length, 4);
  part[6] = type;
  part.writeUInt32LE(masked(crc32c(part.subarray(6))), 0);
  return part;
}

/** The data of the records of a log or manifest that fits into one block of the format. */
export function logRecords(file: Buffer): Buffer[] {
  const records: Buffer[] = [];
  for (let at = 0; at + LOG_HEADER_BYTES <= file.length;) {
    const end = at + LOG_HEADER_BYTES + file.readUInt16LE(at + 4);
    records.push(file.subarray(at + LOG_HEADER_BYTES, end));
    at = end;
  }
  return records;
}

/** A number as LevelDB writes it: seven bits to a byte, the lowest first. */
export function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest % 128) + 128);
  }
}

export interface TableBlock {
  readonly offset: number;
  /** Without compression byte and checksum. */
  readonly size: number;
}

const BLOCK_TRAILER_BYTES = 5;
const FOOTER_BYTES = 48;

/** All blocks of a table file: those with entries, then filter, metaindex and index. Found by their checksums alone. */
export function tableBlocks(file: Buffer): TableBlock[] {
  const end = file.length - FOOTER_BYTES;
  const blocks: TableBlock[] = [];
  let offset = 0;
  while (offset < end) {
    let size = 0;
    let crc = crc32c(file.subarray(offset, offset + 1));
    while (masked(crc) !== file.readUInt32LE(offset + size + 1)) {
      size += 1;
      if (offset + size + BLOCK_TRAILER_BYTES > end) throw new Error(`no block begins at byte ${offset}`);
      crc = crc32c(file.subarray(offset + size, offset + size + 1), crc);
    }
    blocks.push({ offset, size });
    offset += size + BLOCK_TRAILER_BYTES;
  }
  return blocks;
}

/** Compression of a block, as its last byte but the checksum says. */
export const PLAIN = 0;
export const SNAPPY = 1;

/** A block as it stands in a file: contents, compression, and the checksum of both. */
export function sealedBlock(contents: Uint8Array, compression: number): Buffer {
  const block = Buffer.concat([contents, Buffer.of(compression, 0, 0, 0, 0)]);
  block.writeUInt32LE(masked(crc32c(block.subarray(0, -4))), block.length - 4);
  return block;
}

/** The table with another index block, which becomes its last one. */
export function withIndex(file: Buffer, contents: Uint8Array, compression: number): Buffer {
  const index = tableBlocks(file).at(-1);
  if (index === undefined) throw new Error('a table without blocks');
  const footer = Buffer.from(file.subarray(-FOOTER_BYTES));
  const metaindex = readHandle(footer);
  const handles = Buffer.concat([
    varint(metaindex.offset),
    varint(metaindex.size),
    varint(index.offset),
    varint(contents.length),
  ]);
  footer.fill(0, 0, FOOTER_BYTES - 8);
  handles.copy(footer);
  return Buffer.concat([file.subarray(0, index.offset), sealedBlock(contents, compression), footer]);
}

function readHandle(bytes: Buffer): TableBlock {
  const [offset, next] = readVarint(bytes, 0);
  const [size] = readVarint(bytes, next);
  return { offset, size };
}

function readVarint(bytes: Buffer, start: number): [value: number, next: number] {
  let value = 0;
  for (let at = start, scale = 1; ; at += 1, scale *= 128) {
    const byte = bytes.readUInt8(at);
    value += (byte & 0x7f) * scale;
    if (byte < 128) return [value, at + 1];
  }
}
