import { asBuffer } from '../wire/bytes.js';
import { IDENTIFIER_BYTES } from '../ids/identifiers.js';
import type { Identifier, VerifiedCollection } from '../types.js';
import { WireReader } from '../wire/WireReader.js';
import { varintLength, writeVarint } from '../wire/WireWriter.js';
import { WireError } from '../WireError.js';

/** Tag of field 1, length-delimited: `transactions`, both of a full collection and of execution data. */
const TRANSACTION_TAG = 0x0a;

/**
 * The most transactions, or other parts, accepted from one message (a collection, or all chunks of a block). Flow's own limit
 * is 100 per collection; without a bound, a message of empty ones would cost fifty times its size in memory.
 */
const MAX_PARTS = 100_000;

/**
 * For one message: appends the values of field 1 at the reader's position, and counts them; a call without any counts as one.
 * Expected errors: `WireError`.
 */
export function partCollector() {
  let room = MAX_PARTS;
  const count = (): void => {
    if (room-- <= 0) throw new WireError(`a message has more than ${MAX_PARTS} parts`);
  };
  return (reader: WireReader, into: Uint8Array[]): void => {
    const before = room;
    for (; reader.seek(1); into.push(reader.view())) count();
    if (room === before) count();
  };
}

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
 * The transactions of a full collection, or of a `flow.access.FullCollectionResponse`, as views of `encoded`: the inverse of
 * `encodeFullCollection`. Other fields are skipped, and nothing is verified. Expected errors: `WireError`.
 */
export function splitCollection(encoded: Uint8Array): Uint8Array[] {
  const transactions: Uint8Array[] = [];
  partCollector()(new WireReader(encoded), transactions);
  return transactions;
}

/** A transaction of a collection by its index, which is known to be in range; its bytes are a view of the collection. */
export function transactionAt(
  { encoded, ranges, transactionIds }: VerifiedCollection,
  index: number,
): { readonly id: Identifier; readonly wire: Buffer } {
  const start = ranges[2 * index] as number;
  const from = index * IDENTIFIER_BYTES;
  return {
    id: asBuffer(transactionIds).toString('hex', from, from + IDENTIFIER_BYTES) as Identifier,
    wire: asBuffer(encoded).subarray(start, start + (ranges[2 * index + 1] as number)),
  };
}
