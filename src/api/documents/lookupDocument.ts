import type { CollectionPlace, IndexReader, TransactionPlace } from '../../storage/index.js';
import { IndexView } from '../view/IndexView.js';
import { headTerm, parseBlockKey, parseId } from '../view/queryParameters.js';
import { blockBody } from '../json/block.js';
import type { BlockBody } from '../json/block.js';
import { collectionBody } from '../json/collection.js';
import type { CollectionBody } from '../json/collection.js';
import { transactionBody } from '../json/transaction.js';
import type { RestTransactionBody } from '../json/transaction.js';
import type { IndexedRange } from '../view/statusDocument.js';

/** What can be looked up. */
export const lookupKinds = ['block', 'collection', 'transaction'] as const;
export type LookupKind = (typeof lookupKinds)[number];

/** Maximum positions that one document lists. */
export const MAX_PLACES = 100;

/** A block, in the shape of Flow's REST, with the transaction count of each collection. */
export interface BlockDocument extends BlockBody {
  readonly kind: 'block';
  readonly id: string;
  readonly height: number;
  readonly collections: readonly { readonly collection_id: string; readonly transaction_count: number }[];
}

/** A collection and its positions. */
export interface CollectionDocument {
  readonly kind: 'collection';
  readonly id: string;
  /** Of the lowest position. */
  readonly height: number;
  readonly block_id: string;
  readonly collection_index: number;
  /** Every position, lowest first, at most MAX_PLACES. */
  readonly places: readonly { readonly height: number; readonly collection_index: number }[];
  /** True when there are more positions than listed. */
  readonly more_places: boolean;
  readonly collection: CollectionBody;
}

/** A transaction and its positions. */
export interface TransactionDocument {
  readonly kind: 'transaction';
  readonly id: string;
  /** Of the lowest position. */
  readonly height: number;
  readonly block_id: string;
  readonly collection_id: string;
  readonly collection_index: number;
  readonly transaction_index: number;
  /** Every position, lowest first, at most MAX_PLACES. */
  readonly places: readonly {
    readonly height: number;
    readonly collection_index: number;
    readonly transaction_index: number;
  }[];
  /** True when there are more positions than listed. */
  readonly more_places: boolean;
  readonly transaction: RestTransactionBody;
}

export type LookupDocument = BlockDocument | CollectionDocument | TransactionDocument;

/** True for a kind that can be looked up. */
export function isLookupKind(word: string): word is LookupKind {
  return (lookupKinds as readonly string[]).includes(word);
}

/** Checks that a key can name something of this kind. Expected errors: ApiError (400). */
export function checkLookupKey(kind: LookupKind, key: string): void {
  if (kind !== 'block') parseId(key);
  else if (headTerm(key) === undefined) parseBlockKey(key);
}

/**
 * Everything that the index knows of one block (by id or height), collection or transaction (by id): its positions and
 * contents, field names as in Flow's REST, positions as numbers. Serves a running daemon and a closed store alike.
 * `range` is that of the moment of the request: what is committed later is not seen. Expected errors: ApiError (400
 * malformed key, 404 not within `range`), StorageError.
 */
export async function lookupDocument(...asked: Parameters<typeof lookupBuilder>): Promise<LookupDocument> {
  return (await lookupBuilder(...asked))();
}

/** As `lookupDocument`. What comes back makes the document of what was read: that takes the time, and waits for nothing. */
export async function lookupBuilder(
  reader: IndexReader,
  kind: LookupKind,
  key: string,
  range: IndexedRange,
): Promise<() => LookupDocument> {
  const view = new IndexView(range, { reader });
  switch (kind) {
    case 'block':
      return blockDocument(view, key);
    case 'collection':
      return collectionDocument(view, key);
    case 'transaction':
      return transactionDocument(view, key);
  }
}

async function blockDocument(view: IndexView, key: string): Promise<() => BlockDocument> {
  const head = headTerm(key);
  const { block, transactionCounts } = await view.block(
    head === undefined ? parseBlockKey(key) : view.head(head),
  );
  return () => ({
    kind: 'block',
    id: block.id,
    height: block.height,
    ...blockBody(block.encoded),
    collections: block.collectionIds.map((id, index) => ({
      collection_id: id,
      transaction_count: transactionCounts[index] ?? 0,
    })),
  });
}

async function collectionDocument(view: IndexView, key: string): Promise<() => CollectionDocument> {
  const id = parseId(key);
  const stored = await view.collection(id);
  const places = await view.collectionPlaces(id, MAX_PLACES + 1);
  return () => ({
    kind: 'collection',
    id,
    height: stored.place.height,
    block_id: stored.blockId,
    collection_index: stored.place.collectionIndex,
    places: places.slice(0, MAX_PLACES).map(collectionPlace),
    more_places: places.length > MAX_PLACES,
    collection: collectionBody(id, stored.encoded),
  });
}

async function transactionDocument(view: IndexView, key: string): Promise<() => TransactionDocument> {
  const id = parseId(key);
  const stored = await view.transaction(id);
  const places = await view.transactionPlaces(id, MAX_PLACES + 1);
  return () => ({
    kind: 'transaction',
    id,
    block_id: stored.blockId,
    collection_id: stored.collectionId,
    ...transactionPlace(stored.place),
    places: places.slice(0, MAX_PLACES).map(transactionPlace),
    more_places: places.length > MAX_PLACES,
    transaction: transactionBody(id, stored.encoded),
  });
}

function collectionPlace(place: CollectionPlace): { height: number; collection_index: number } {
  return { height: place.height, collection_index: place.collectionIndex };
}

function transactionPlace(place: TransactionPlace): {
  height: number;
  collection_index: number;
  transaction_index: number;
} {
  return { ...collectionPlace(place), transaction_index: place.transactionIndex };
}
