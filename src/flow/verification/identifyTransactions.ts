import { splitCollection } from '../entities/fullCollection.js';
import { canonicalTransaction, checkTransactionSize } from '../entities/transaction.js';
import { IDENTIFIER_BYTES, toIdentifier } from '../ids/identifiers.js';
import { TransactionHasher } from '../ids/TransactionHasher.js';
import type { Identifier } from '../types.js';

/** Room for the RLP form of an ordinary transaction, besides the collection itself; grows when needed. */
const WORKING_BYTES = 4096;
/** Likewise where there is only one. */
const ONE_WORKING_BYTES = 512;
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
  const digits = idsOf(collection, transactions, WORKING_BYTES)?.toString('hex');
  return transactions.map((encoded, index) => {
    const id = digits?.slice(index * ID_DIGITS, (index + 1) * ID_DIGITS) as Identifier | undefined;
    return { id: id ?? toIdentifier(transactionId(encoded)), encoded };
  });
}

/**
 * The id of a transaction: SHA3-256 of its RLP form, from its wire bytes, canonical or not.
 * Expected errors: `WireError`.
 */
export function transactionId(wire: Uint8Array): Buffer {
  checkTransactionSize(wire);
  const id = idsOf(wire, [wire], ONE_WORKING_BYTES);
  if (id !== undefined) return id;
  const canonical = canonicalTransaction(wire);
  const ofCanonical = idsOf(canonical, [canonical], ONE_WORKING_BYTES);
  if (ofCanonical === undefined) throw new Error('a re-encoded transaction is not canonical');
  return ofCanonical;
}

/** The ids of transactions that are views of these bytes; `undefined` when one of them is not canonical. */
function idsOf(
  bytes: Uint8Array,
  transactions: readonly Uint8Array[],
  workingBytes: number,
): Buffer | undefined {
  const hasher = new TransactionHasher(2 * bytes.length + workingBytes);
  hasher.rlp.setSource(bytes);
  const ranges = new Uint32Array(2 * transactions.length);
  for (const [index, { byteOffset, length }] of transactions.entries()) {
    ranges[2 * index] = byteOffset - bytes.byteOffset;
    ranges[2 * index + 1] = length;
  }
  const ids = Buffer.alloc(transactions.length * IDENTIFIER_BYTES);
  return hasher.run(ranges, ids) ? ids : undefined;
}
