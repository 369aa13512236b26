import { splitCollection, toIdentifier, transactionId } from '../../flow/index.js';
import type { Identifier } from '../../flow/index.js';
import { restTransaction, transactionBody, transactionLink } from './transaction.js';
import type { RestTransaction, RestTransactionBody } from './transaction.js';

/** Flow's REST form of a collection. */
export interface RestCollection {
  readonly id: string;
  /** Present when expanded, even if empty: clients read it without checking. */
  readonly transactions?: readonly RestTransaction[];
  readonly _expandable: { readonly transactions?: readonly string[] };
  readonly _links: { readonly _self: string };
}

/** A collection with the bodies of its transactions and without links. */
export interface CollectionBody {
  readonly id: string;
  readonly transactions: readonly RestTransactionBody[];
}

/** A collection of a block: its transaction ids come in addition to the links or bodies. */
export interface RestBlockCollection extends RestCollection {
  readonly transaction_ids: readonly string[];
}

/** All collections of a block. Flow's REST has no such response. */
export interface RestBlockCollections {
  readonly block_id: string;
  readonly height: string;
  /** In the order of the guarantees. */
  readonly collections: readonly RestBlockCollection[];
  readonly _links: { readonly _self: string };
}

/** What is included in the response instead of linked. */
export interface CollectionExpansion {
  readonly transactions: boolean;
}

/** `encoded` is the stored form: the transactions one after another, as in a `GetFullCollectionByID` response. */
export function restCollection(
  id: Identifier,
  encoded: Uint8Array,
  expand: CollectionExpansion,
): RestCollection {
  return collectionOf(id, identified(encoded), expand);
}

export function restBlockCollections(
  blockId: Identifier,
  height: number,
  collections: readonly { readonly id: Identifier; readonly encoded: Uint8Array }[],
  expand: CollectionExpansion,
): RestBlockCollections {
  return {
    block_id: blockId,
    height: String(height),
    collections: collections.map(({ id, encoded }) => {
      const transactions = identified(encoded);
      return {
        ...collectionOf(id, transactions, expand),
        transaction_ids: transactions.map((one) => one.id),
      };
    }),
    _links: { _self: `/v1/blocks/${blockId}/collections` },
  };
}

/** The transactions of these collections, in order. */
export function restTransactions(
  collections: readonly { readonly encoded: Uint8Array }[],
): RestTransaction[] {
  return collections
    .flatMap(({ encoded }) => splitCollection(encoded))
    .map((one) => restTransaction(toIdentifier(transactionId(one)), one));
}

export function collectionBody(id: Identifier, encoded: Uint8Array): CollectionBody {
  return { id, transactions: identified(encoded).map((one) => transactionBody(one.id, one.encoded)) };
}

interface IdentifiedTransaction {
  readonly id: Identifier;
  readonly encoded: Uint8Array;
}

function collectionOf(
  id: Identifier,
  transactions: readonly IdentifiedTransaction[],
  expand: CollectionExpansion,
): RestCollection {
  const _links = { _self: `/v1/collections/${id}` };
  if (!expand.transactions) {
    return { id, _expandable: { transactions: transactions.map((one) => transactionLink(one.id)) }, _links };
  }
  return {
    id,
    transactions: transactions.map((one) => restTransaction(one.id, one.encoded)),
    _expandable: {},
    _links,
  };
}

function identified(encoded: Uint8Array): IdentifiedTransaction[] {
  return splitCollection(encoded).map((transaction) => ({
    id: toIdentifier(transactionId(transaction)),
    encoded: transaction,
  }));
}
