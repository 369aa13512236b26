import { decodeBlock } from '../../flow/index.js';
import type { StoredBlock } from '../../storage/index.js';
import { rfc3339 } from '../json/scalars.js';
import * as t from '../schema.js';

/** The collections of a block, in the order of its guarantees. */
export const countedCollections = t.arrayOf(
  t.object({ collection_id: t.identifier, transaction_count: t.count }),
);

export function countCollections({
  block,
  transactionCounts,
}: StoredBlock): t.Described<typeof countedCollections> {
  return block.collectionIds.map((id, index) => ({
    collection_id: id,
    transaction_count: transactionCounts[index] ?? 0,
  }));
}

/** The data of a `height` event: a height became readable. */
export const heightSchema = t.named(
  'IndexedHeight',
  t.object({
    height: t.count,
    block_id: t.identifier,
    parent_id: t.identifier,
    timestamp: t.time,
    collections: countedCollections,
    sealed: t.note('Known to be sealed when this was sent.', t.flag),
    proven: t.note('Known to be proven final when this was sent.', t.flag),
  }),
);

/** The data of a `rewind` event. */
export const rewindSchema = t.named(
  'Rewind',
  t.object({
    height: t.note('Discard everything above.', t.count),
    block_id: t.note('The block indexed at this height; null where none is known.', t.orNull(t.identifier)),
  }),
);

export function heightDocument({
  stored,
  isSealed,
  isProven,
}: {
  readonly stored: StoredBlock;
  readonly isSealed: boolean;
  readonly isProven: boolean;
}): t.Described<typeof heightSchema> {
  const { block } = stored;
  return {
    height: block.height,
    block_id: block.id,
    parent_id: block.parentId,
    timestamp: rfc3339(decodeBlock(block.encoded).timestamp),
    collections: countCollections(stored),
    sealed: isSealed,
    proven: isProven,
  };
}
