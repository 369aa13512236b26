import { splitCollection } from '../entities/fullCollection.js';
import { canonicalTransaction, checkTransactionSize } from '../entities/transaction.js';
import { IDENTIFIER_BYTES, toIdentifier } from '../ids/identifiers.js';
import { TransactionHasher } from '../ids/TransactionHasher.js';
import type { Identifier } from '../types.js';

/** Room for the RLP overhead of an ordinary transaction; grows when needed. */
const ONE_WORKING_BYTES = 512;
/** Room for the RLP form of an ordinary transaction, besides the collection itself; grows when needed. */
const WORKING_BYTES = 4096;
/** Hexadecimal digits of an id. */
const ID_DIGITS = 2 * IDENTIFIER_BYTES;

export interface IdentifiedTransaction {
  readonly id: Identifier;
  /** The wire form, a view of the collection. */
  readonly encoded: Uint8Array;
}

/**
 * The transactions of a full collection, in order, with their ids. One hasher serves all of them: an id alone spends
 * more time on its buffer than on its hash. Expected errors: `WireError`.
 */
export function identifyTransactions(collection: Uint8Array): IdentifiedTransaction[] {
  const transactions = splitCollection(collection);
  const ids = hashAll(collection, transactions);
  return transactions.map((encoded, index) => ({
    id:
      (ids?.slice(index * ID_DIGITS, (index + 1) * ID_DIGITS) as Identifier | undefined) ??
      toIdentifier(transactionId(encoded)),
    encoded,
  }));
}

/** The hexadecimal digits of all ids; `undefined` when one of the transactions is not canonical. */
function hashAll(collection: Uint8Array, transactions: readonly Uint8Array[]): string | undefined {
  const hasher = new TransactionHasher(2 * collection.length + WORKING_BYTES);
  hasher.rlp.setSource(collection);
  const ranges = new Uint32Array(2 * transactions.length);
  for (const [index, { byteOffset, length }] of transactions.entries()) {
    ranges[2 * index] = byteOffset - collection.byteOffset;
    ranges[2 * index + 1] = length;
  }
  const ids = Buffer.alloc(transactions.length * IDENTIFIER_BYTES);
  return hasher.run(ranges, ids) ? ids.toString('hex') : undefined;
}

/**
 * The id of a transaction: SHA3-256 of its RLP form, from its wire bytes, canonical or not.
 * Expected errors: `WireError`.
 */
export function transactionId(wire: Uint8Array): Buffer {
  const id = Buffer.alloc(IDENTIFIER_BYTES);
  if (!hashWire(wire, id) && !hashWire(canonicalTransaction(wire), id)) {
    throw new Error('a re-encoded transaction is not canonical');
  }
  return id;
}

function hashWire(wire: Uint8Array, id: Buffer): boolean {
  checkTransactionSize(wire);
  const hasher = new TransactionHasher(2 * wire.length + ONE_WORKING_BYTES);
  hasher.rlp.setSource(wire);
  return hasher.run(Uint32Array.of(0, wire.length), id);
}
