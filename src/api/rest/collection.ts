import { splitCollection, toIdentifier, transactionId } from '../../flow/index.js';
import type { Identifier } from '../../flow/index.js';
import { restTransaction, transactionBody, transactionLink } from './transaction.js';
import type { RestTransaction, RestTransactionBody } from './transaction.js';

/** Flow's REST form of a collection. */
export interface RestCollection {
  readonly id: string;
  /** Present when expanded, also when there are none: clients read it without looking. */
  readonly transactions?: readonly RestTransaction[];
  readonly _expandable: { readonly transactions?: readonly string[] };
  readonly _links: { readonly _self: string };
}

/** A collection with the bodies of its transactions and without links. */
export interface CollectionBody {
  readonly id: string;
  readonly transactions: readonly RestTransactionBody[];
}

/** `encoded` is the stored form: the transactions one after another, as in the answer to `GetFullCollectionByID`. */
export function restCollection(
  id: Identifier,
  encoded: Uint8Array,
  expand: { readonly transactions: boolean },
): RestCollection {
  const transactions = identified(encoded);
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

export function collectionBody(id: Identifier, encoded: Uint8Array): CollectionBody {
  return { id, transactions: identified(encoded).map((one) => transactionBody(one.id, one.encoded)) };
}

function identified(encoded: Uint8Array): { readonly id: Identifier; readonly encoded: Uint8Array }[] {
  return splitCollection(encoded).map((transaction) => ({
    id: toIdentifier(transactionId(transaction)),
    encoded: transaction,
  }));
}
