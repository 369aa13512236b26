/** CRC-32C (Castagnoli), four bytes at a time: tables of all contributions of one byte at four distances. */
const crcTables = ((): Uint32Array[] => {
  const first = Uint32Array.from({ length: 256 }, (_, byte) => {
    let crc = byte;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
    return crc >>> 0;
  });
  const tables = [first];
  for (let distance = 1; distance < 4; distance += 1) {
    const nearer = tables[distance - 1] ?? first;
    tables.push(nearer.map((crc) => (crc >>> 8) ^ (first[crc & 0xff] ?? 0)));
  }
  return tables;
})();

function crc32c(bytes: Buffer, start: number, end: number): number {
  const [zero, one, two, three] = crcTables as [Uint32Array, Uint32Array, Uint32Array, Uint32Array];
  let crc = 0xffffffff;
  let at = start;
  for (; at + 4 <= end; at += 4) {
    crc ^= bytes.readInt32LE(at);
    crc =
      (three[crc & 0xff] ?? 0) ^
      (two[(crc >>> 8) & 0xff] ?? 0) ^
      (one[(crc >>> 16) & 0xff] ?? 0) ^
      (zero[crc >>> 24] ?? 0);
  }
  for (; at < end; at += 1) crc = (crc >>> 8) ^ (zero[(crc ^ (bytes[at] ?? 0)) & 0xff] ?? 0);
  return ~crc >>> 0;
}

const MASK_DELTA = 0xa282ead8;

/** The checksum of `bytes[start, end)` as LevelDB stores it: turned and shifted, so that it may cover checksums itself. */
export function maskedCrc(bytes: Buffer, start: number, end: number): number {
  const crc = crc32c(bytes, start, end);
  return (((crc >>> 15) | (crc << 17)) + MASK_DELTA) >>> 0;
}
