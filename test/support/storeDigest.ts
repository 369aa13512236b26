import { createHash } from 'node:crypto';
import type { LevelIndexStore } from '../../src/storage/index.js';

/** SHA-256 over all keys and values in order, each preceded by its length: equal for equal stores. Hex. */
export async function digestOf(store: Pick<LevelIndexStore, 'entries'>): Promise<string> {
  const hash = createHash('sha256');
  const lengths = Buffer.alloc(8);
  for await (const [key, value] of store.entries()) {
    lengths.writeUInt32BE(key.length, 0);
    lengths.writeUInt32BE(value.length, 4);
    hash.update(lengths).update(key).update(value);
  }
  return hash.digest('hex');
}
