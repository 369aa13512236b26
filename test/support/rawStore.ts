import { crc32 } from 'node:zlib';
import { Level } from 'level';

/** The key of a record: what it is, its height, and numbers that follow. */
export function keyOf(prefix: number, height: number, ...rest: readonly number[]): Buffer {
  const key = Buffer.alloc(9 + 4 * rest.length);
  key.writeUInt8(prefix);
  key.writeBigUInt64BE(BigInt(height), 1);
  rest.forEach((number, index) => key.writeUInt32BE(number, 9 + 4 * index));
  return key;
}

/** The height that a record belongs to, told from its key; `undefined` for the records of the whole store. */
export function heightOf(key: Buffer): number | undefined {
  const prefix = key[0] ?? 0;
  if (prefix < 0x10) return undefined;
  // An account's newest entry comes first.
  if (prefix === 0x23) return 0xffff_ffff - key.readUInt32BE(13);
  return Number(key.readBigUInt64BE(prefix < 0x20 ? 1 : 33));
}

export type RawDatabase = Level<Buffer, Buffer>;

/** Opens the database of a closed store behind its back. */
export async function withRawDatabase<T>(
  path: string,
  action: (database: RawDatabase) => Promise<T>,
): Promise<T> {
  const database: RawDatabase = new Level(path, { keyEncoding: 'buffer', valueEncoding: 'buffer' });
  await database.open();
  try {
    return await action(database);
  } finally {
    await database.close();
  }
}

/** Turns a bit of a byte of a record, whose checksum then does not match any more. */
export async function flip(database: RawDatabase, key: Buffer, at = 1): Promise<void> {
  const value = await database.get(key);
  value[at]! ^= 1;
  await database.put(key, value);
}

export function rawEntries(path: string): Promise<[Buffer, Buffer][]> {
  return withRawDatabase(path, (database) => database.iterator().all());
}

/** A stored value as the store writes it: the payload and the checksum of key and payload. */
export function sealed(key: Buffer, payload: Uint8Array): Buffer {
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(Buffer.concat([key, payload])));
  return Buffer.concat([payload, checksum]);
}
