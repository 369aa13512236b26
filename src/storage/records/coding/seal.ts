import { crc32 } from 'node:zlib';

export const CHECKSUM_BYTES = 4;

/** The value to store: the payload and the checksum of key and payload. */
export function seal(key: Uint8Array, payload: Uint8Array): Buffer {
  const value = Buffer.allocUnsafe(payload.length + CHECKSUM_BYTES);
  value.set(payload);
  value.writeUInt32BE(crc32(payload, crc32(key)), payload.length);
  return value;
}

/** The payload of a stored value, or `undefined` when its checksum does not match. */
export function unseal(key: Uint8Array, value: Buffer): Buffer | undefined {
  const end = value.length - CHECKSUM_BYTES;
  if (end < 0) return undefined;
  const payload = value.subarray(0, end);
  return crc32(payload, crc32(key)) === value.readUInt32BE(end) ? payload : undefined;
}
