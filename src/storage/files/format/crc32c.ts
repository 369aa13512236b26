/** Bytes per step. Each step depends on the one before, so fewer and longer ones are faster. */
const STEP_BYTES = 8;
/** The Castagnoli polynomial, reflected. */
const POLYNOMIAL = 0x82f63b78;

/** At `distance * 256 + byte`: the contribution of a byte that is followed by `distance` bytes of the step. */
const contributions = ((): Int32Array => {
  const table = new Int32Array(STEP_BYTES * 256);
  for (let byte = 0; byte < 256; byte += 1) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
    table[byte] = crc;
  }
  for (let at = 256; at < table.length; at += 1) {
    const nearer = table[at - 256] as number;
    table[at] = (nearer >>> 8) ^ (table[nearer & 0xff] as number);
  }
  return table;
})();

/** The contribution of the lowest byte when `distance` bytes of the step follow it. */
function contribution(distance: number, value: number): number {
  return contributions[(distance << 8) | (value & 0xff)] as number;
}

/** The caller checks the bounds. */
function byteAt(bytes: Buffer, at: number): number {
  return bytes[at] as number;
}

/** CRC-32C of `bytes[start, end)`. */
function crc32c(bytes: Buffer, start: number, end: number): number {
  let crc = -1;
  let at = start;
  // Byte by byte: reading words would check bounds and combine bytes that are taken apart again here.
  for (; at + STEP_BYTES <= end; at += STEP_BYTES) {
    crc =
      contribution(7, crc ^ byteAt(bytes, at)) ^
      contribution(6, (crc >>> 8) ^ byteAt(bytes, at + 1)) ^
      contribution(5, (crc >>> 16) ^ byteAt(bytes, at + 2)) ^
      contribution(4, (crc >>> 24) ^ byteAt(bytes, at + 3)) ^
      contribution(3, byteAt(bytes, at + 4)) ^
      contribution(2, byteAt(bytes, at + 5)) ^
      contribution(1, byteAt(bytes, at + 6)) ^
      contribution(0, byteAt(bytes, at + 7));
  }
  for (; at < end; at += 1) crc = (crc >>> 8) ^ contribution(0, crc ^ byteAt(bytes, at));
  return ~crc >>> 0;
}

const MASK_DELTA = 0xa282ead8;

/**
 * The checksum of `bytes[start, end)` as LevelDB stores it: rotated and offset, so that it can itself be checksummed.
 */
export function maskedCrc(bytes: Buffer, start: number, end: number): number {
  const crc = crc32c(bytes, start, end);
  return (((crc >>> 15) | (crc << 17)) + MASK_DELTA) >>> 0;
}
