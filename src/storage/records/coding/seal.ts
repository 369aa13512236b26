import { crc32 } from 'node:zlib';
import { corruptRecord } from '../../StorageError.js';

export const CHECKSUM_BYTES = 4;

/** The value to store: the payload and the checksum of key and payload. */
export function seal(key: Uint8Array, payload: Uint8Array): Buffer {
  const value = Buffer.allocUnsafe(payload.length + CHECKSUM_BYTES);
  value.set(payload);
  value.writeUInt32BE(crc32(payload, crc32(key)), payload.length);
  return value;
}

/** A record, for messages: what it is, and its height, where it has one. */
export interface Named {
  readonly what: string;
  readonly height?: number | undefined;
}

/** The content of a stored value. Expected errors: `StorageError` (`corrupt`). */
export function openValue<T>(
  { what, height }: Named,
  key: Buffer,
  value: Buffer,
  decode: (payload: Buffer) => T | undefined,
  wrong = 'it cannot be read',
): T {
  const end = value.length - CHECKSUM_BYTES;
  const payload = value.subarray(0, Math.max(0, end));
  if (end < 0 || crc32(payload, crc32(key)) !== value.readUInt32BE(end))
    throw corruptRecord(what, height, 'its checksum does not match');
  const content = decode(payload);
  if (content === undefined) throw corruptRecord(what, height, wrong);
  return content;
}

/** The content of a key. Expected errors: `StorageError` (`corrupt`). */
export function openKeyOf<T>(what: string, key: Buffer, parse: (key: Buffer) => T | undefined): T {
  const parsed = parse(key);
  if (parsed !== undefined) return parsed;
  throw corruptRecord(what, undefined, `key ${key.toString('hex')} is not one of ours`);
}
