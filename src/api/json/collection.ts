import { identifyTransactions } from '../../flow/index.js';
import type { IdentifiedTransaction, Identifier } from '../../flow/index.js';
import * as t from '../schema.js';
import {
  restTransaction,
  transactionBody,
  transactionBodySchema,
  transactionLink,
  transactionSchema,
} from './transaction.js';

const linkedFields = {
  id: t.identifier,
  _expandable: t.object({}, { transactions: t.arrayOf(t.link) }),
  _links: t.selfLink,
};
const expandedFields = { transactions: t.note('With expand=transactions.', t.arrayOf(transactionSchema)) };

export const collectionSchema = t.named('Collection', t.object(linkedFields, expandedFields));
type RestCollection = t.Described<typeof collectionSchema>;

/** Flow's REST interface has no such response. */
export const blockCollectionsSchema = t.named(
  'BlockCollections',
  t.object({
    block_id: t.identifier,
    height: t.decimal,
    collections: t.note(
      'In the order of the guarantees.',
      t.arrayOf(
        t.named(
          'BlockCollection',
          t.object({ ...linkedFields, transaction_ids: t.arrayOf(t.identifier) }, expandedFields),
        ),
      ),
    ),
    _links: t.selfLink,
  }),
);
type RestBlockCollections = t.Described<typeof blockCollectionsSchema>;

/** A collection with the bodies of its transactions and without links. */
export const collectionBodySchema = t.object({
  id: t.identifier,
  transactions: t.arrayOf(transactionBodySchema),
});

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
  return collectionOf(id, identifyTransactions(encoded), expand);
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
      const transactions = identifyTransactions(encoded);
      return {
        ...collectionOf(id, transactions, expand),
        transaction_ids: transactions.map((one) => one.id),
      };
    }),
    _links: { _self: `/v1/blocks/${blockId}/collections` },
  };
}

/** The transactions of these collections, in order. */
export function restTransactions(collections: readonly { readonly encoded: Uint8Array }[]) {
  return collections
    .flatMap(({ encoded }) => identifyTransactions(encoded))
    .map((one) => restTransaction(one.id, one.encoded));
}

export function collectionBody(
  id: Identifier,
  encoded: Uint8Array,
): t.Described<typeof collectionBodySchema> {
  return {
    id,
    transactions: identifyTransactions(encoded).map((one) => transactionBody(one.id, one.encoded)),
  };
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
