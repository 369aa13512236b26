import type { IndexReader, Place, StoredBlock } from '../../storage/index.js';
import { IndexView } from '../view/IndexView.js';
import { headTerm, parseBlockKey, parseId } from '../view/queryParameters.js';
import { blockBody, blockBodyFields, collectionBody, collectionBodySchema } from '../json.js';
import { transactionBody, transactionBodySchema } from '../json.js';
import * as T from '../Schema.js';
import type { IndexedRange } from '../view/indexedRange.js';

export const lookupKinds = ['block', 'collection', 'transaction'] as const;
export type LookupKind = (typeof lookupKinds)[number];

/** Maximum positions that one document lists. */
export const MAX_PLACES = 100;

/** The collections of a block, in the order of its guarantees. */
export const countedCollections = T.arrayOf(
  T.object({ collection_id: T.identifier, transaction_count: T.count }),
);

export function countCollections({
  block,
  transactionCounts,
}: StoredBlock): T.Described<typeof countedCollections> {
  return block.collectionIds.map((id, index) => ({
    collection_id: id,
    transaction_count: transactionCounts[index] ?? 0,
  }));
}

/** A block, in the shape of Flow's REST, with the transaction count of each collection. */
const blockSchema = T.object({
  kind: T.words('block'),
  id: T.identifier,
  height: T.count,
  ...blockBodyFields,
  collections: countedCollections,
}).named('BlockDocument');

const collectionPlaceFields = { height: T.count, collection_index: T.count };
const transactionPlaceFields = { ...collectionPlaceFields, transaction_index: T.count };

/** Height and indexes are those of the lowest position; `places` lists all of them. */
function positioned<Place extends Readonly<Record<string, T.Schema<number>>>>(place: Place) {
  return {
    id: T.identifier,
    block_id: T.identifier,
    ...place,
    places: T.arrayOf(T.object(place), MAX_PLACES).note('Every position, lowest first.'),
    more_places: T.flag.note('There are more positions than listed.'),
  };
}

const collectionSchema = T.object({
  kind: T.words('collection'),
  ...positioned(collectionPlaceFields),
  collection: collectionBodySchema,
}).named('CollectionDocument');

const transactionSchema = T.object({
  kind: T.words('transaction'),
  ...positioned(transactionPlaceFields),
  collection_id: T.identifier,
  transaction: transactionBodySchema,
}).named('TransactionDocument');

export const lookupSchema = T.oneOf(blockSchema, collectionSchema, transactionSchema).named('LookupDocument');
type LookupDocument = T.Described<typeof lookupSchema>;

export function isLookupKind(word: string): word is LookupKind {
  return (lookupKinds as readonly string[]).includes(word);
}

/** Checks that a key can name something of this kind. Expected errors: ApiError (400). */
export function checkLookupKey(kind: LookupKind, key: string): void {
  if (kind !== 'block') parseId(key);
  else if (headTerm(key) === undefined) parseBlockKey(key);
}

/**
 * Everything that the index knows about one block (by id or height), collection or transaction (by id): its positions and
 * contents, with field names as in Flow's REST and positions as numbers. For a running daemon or a closed store. `now`: as for
 * `IndexView`. Expected errors: ApiError (400 malformed key, 404 not indexed), StorageError.
 */
export async function lookupDocument(
  reader: IndexReader,
  kind: LookupKind,
  key: string,
  now: () => IndexedRange,
): Promise<LookupDocument> {
  const view = new IndexView(reader, now);
  if (kind === 'block') {
    const stored = await view.blockNamed(key);
    const { id, height, encoded } = stored.block;
    return { kind, id, height, ...blockBody(encoded), collections: countCollections(stored) };
  }
  const id = parseId(key);
  const stored = await view.item(kind, id);
  const found = await reader.places(kind, id, MAX_PLACES + 1);
  const readable = found.filter(({ height }) => view.covers(height));
  const places = readable.slice(0, MAX_PLACES);
  const hasMore = readable.length > MAX_PLACES;
  const { blockId, collectionId, encoded, place } = stored;
  if (kind === 'collection')
    return {
      kind,
      id,
      block_id: blockId,
      ...collectionPlace(place),
      places: places.map(collectionPlace),
      more_places: hasMore,
      collection: collectionBody(id, encoded),
    };
  return {
    kind,
    id,
    block_id: blockId,
    collection_id: collectionId,
    ...transactionPlace(place),
    places: places.map(transactionPlace),
    more_places: hasMore,
    transaction: transactionBody(stored),
  };
}

function collectionPlace(place: Place) {
  return { height: place.height, collection_index: place.collectionIndex };
}

function transactionPlace(place: Place) {
  return { ...collectionPlace(place), transaction_index: place.transactionIndex };
}
