import { WireReader } from '../wire/WireReader.js';
import { varintLength, writeVarint } from '../wire/WireWriter.js';
import { TransactionLimit } from './TransactionLimit.js';

/** Tag of field 1, length-delimited: `transactions`, both of a full collection and of execution data. */
const TRANSACTION_TAG = 0x0a;

/** Bytes of the wire form of a full collection. */
export function fullCollectionSize(transactions: readonly Uint8Array[]): number {
  let size = 0;
  for (const wire of transactions) size += 1 + varintLength(wire.length) + wire.length;
  return size;
}

/** Writes `0x0a, length, transaction` for each, and notes the offset and length of each transaction. */
export function writeFullCollection(
  target: Buffer,
  transactions: readonly Uint8Array[],
  ranges: Uint32Array,
): void {
  let position = 0;
  let noted = 0;
  for (const wire of transactions) {
    target[position] = TRANSACTION_TAG;
    position = writeVarint(target, position + 1, wire.length);
    ranges[noted++] = position;
    ranges[noted++] = wire.length;
    target.set(wire, position);
    position += wire.length;
  }
}

/** The wire form of a full collection (`repeated Transaction transactions = 1`), as in `VerifiedCollection.encoded`. */
export function encodeFullCollection(transactions: readonly Uint8Array[]): Uint8Array {
  const encoded = Buffer.allocUnsafe(fullCollectionSize(transactions));
  writeFullCollection(encoded, transactions, new Uint32Array(2 * transactions.length));
  return encoded;
}

/**
 * The transactions of a full collection, as views of `encoded`: the inverse of `encodeFullCollection`. Other fields are
 * skipped. Expected errors: `WireError`.
 */
export function splitCollection(encoded: Uint8Array): Uint8Array[] {
  const transactions: Uint8Array[] = [];
  new TransactionLimit().collect(new WireReader(encoded), transactions);
  return transactions;
}
