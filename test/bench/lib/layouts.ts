import type { BlockEntry } from '../../../src/storage/index.js';
import { blockKeyValues, indexKey, KEY, sealed, words } from './storeOnly.js';
import type { KeyValue } from './storeOnly.js';

/**
 * Ways to lay out the same blocks in LevelDB, for decision 0001. What a collection holds is
 *
 * - `value per block`: with all others of its block in one value under the height; pointers for ids (what the store does);
 * - `value per collection, by height`: in a value of its own under height and place; pointers for ids;
 * - `value per collection, by id`: in a value of its own under its id; pointers for transaction ids alone.
 */
export const layoutNames = [
  'value per block',
  'value per collection, by height',
  'value per collection, by id',
] as const;
export type LayoutName = (typeof layoutNames)[number];

export const layouts: Readonly<Record<LayoutName, (entry: BlockEntry) => KeyValue[]>> = {
  'value per block': blockKeyValues,
  'value per collection, by height': perCollectionByHeight,
  'value per collection, by id': perCollectionById,
};

function perCollectionByHeight(entry: BlockEntry): KeyValue[] {
  const { block, collections } = entry;
  return [
    ...blockKeyValues(entry).filter(([key]) => key[0] !== KEY.body),
    ...collections.map(({ encoded }, place) =>
      sealed(indexKey(KEY.body, undefined, block.height, [place]), encoded),
    ),
  ];
}

function perCollectionById(entry: BlockEntry): KeyValue[] {
  const { block, collections } = entry;
  return [
    ...blockKeyValues(entry).filter(([key]) => key[0] !== KEY.body && key[0] !== KEY.collection),
    ...collections.map(({ id, encoded }, place) =>
      sealed(
        indexKey(KEY.collection, Buffer.from(id, 'hex'), block.height, [place]),
        Buffer.concat([words(encoded.length), encoded]),
      ),
    ),
  ];
}
