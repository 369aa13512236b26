import { asBuffer } from '../wire/bytes.js';
import { IDENTIFIER_BYTES } from '../ids/identifiers.js';
import type { Identifier, VerifiedCollection } from '../types.js';

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
