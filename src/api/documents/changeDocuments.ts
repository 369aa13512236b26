import { decodeBlock } from '../../flow/index.js';
import type { StoredBlock } from '../../storage/index.js';
import { rfc3339 } from '../json/scalars.js';
import { arrayOf, count, flag, identifier, named, note, object, orNull, time } from '../schema.js';
import type { Described } from '../schema.js';

/** The collections of a block, in the order of its guarantees. */
export const countedCollections = arrayOf(object({ collection_id: identifier, transaction_count: count }));

export function countCollections({
  block,
  transactionCounts,
}: StoredBlock): Described<typeof countedCollections> {
  return block.collectionIds.map((id, index) => ({
    collection_id: id,
    transaction_count: transactionCounts[index] ?? 0,
  }));
}

/** The data of a `height` event: a height became readable. */
export const heightSchema = named(
  'IndexedHeight',
  object({
    height: count,
    block_id: identifier,
    parent_id: identifier,
    timestamp: time,
    collections: countedCollections,
    sealed: note('Known to be sealed when this was sent.', flag),
  }),
);

/** The data of a `rewind` event. */
export const rewindSchema = named(
  'Rewind',
  object({
    height: note('Discard everything above.', count),
    block_id: note('The block indexed at this height; null where none is known.', orNull(identifier)),
  }),
);

export function heightDocument(stored: StoredBlock, isSealed: boolean): Described<typeof heightSchema> {
  const { block } = stored;
  return {
    height: block.height,
    block_id: block.id,
    parent_id: block.parentId,
    timestamp: rfc3339(decodeBlock(block.encoded).timestamp),
    collections: countCollections(stored),
    sealed: isSealed,
  };
}
