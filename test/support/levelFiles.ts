/** Where the blocks of LevelDB's tables are, for tests that damage one. */

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

interface TableBlock {
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
