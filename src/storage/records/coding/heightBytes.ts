export function writeHeight(target: Buffer, height: number, offset: number): void {
  if (!Number.isSafeInteger(height) || height < 0) {
    throw new RangeError(`not a height: ${height}`);
  }
  target.writeUInt32BE(Math.floor(height / 2 ** 32), offset);
  target.writeUInt32BE(height % 2 ** 32, offset + 4);
}

/** `undefined` when the eight bytes are not a safe integer. */
export function tryReadHeight(source: Buffer, offset: number): number | undefined {
  const height = source.readUInt32BE(offset) * 2 ** 32 + source.readUInt32BE(offset + 4);
  return Number.isSafeInteger(height) ? height : undefined;
}
