import type { FinalizedBlock } from '../../../flow/index.js';
import { StorageError } from '../../StorageError.js';
import { encodeBlockRecord } from '../coding/blockRecord.js';
import { seal } from '../coding/seal.js';
import { blockKey } from '../schema.js';
import { openBlockRecord } from './readBlocks.js';

/**
 * The record of a stored block with the proof that came later; the same where it has one. `undefined`: another block stands
 * there. Expected errors: `StorageError` (`corrupt` also where the id of the stored block proves another parent or other
 * guarantees).
 */
export function provenRecord(value: Buffer, proven: FinalizedBlock): Buffer | undefined {
  const { height, id, encoded, proof } = proven;
  const key = blockKey(height);
  const { block, shapes, bodyLength } = openBlockRecord(key, value, height);
  if (block.id !== id) return undefined;
  if (block.parentId !== proven.parentId || block.collectionIds.join() !== proven.collectionIds.join()) {
    const damage = `block ${height}: its id proves another parent or other guarantees than are stored`;
    throw new StorageError(
      'corrupt',
      `The store is damaged: ${damage}. A node lied when it was indexed. Remove it with "rewind --to ${height - 1}", and start again.`,
      { height, damage },
    );
  }
  if (block.proof !== undefined) return value;
  return seal(key, encodeBlockRecord({ encoded, proof, collections: shapes, bodyLength }));
}
