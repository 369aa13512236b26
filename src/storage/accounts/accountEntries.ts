import { accountsOf, splitCollection } from '../../flow/index.js';
import type { BlockEntry } from '../port/RangeStore.js';
import { putPointers } from '../records/blocks/BlockEntryWriter.js';
import type { Put } from '../records/blocks/BlockEntryWriter.js';
import { seal } from '../records/coding/seal.js';
import { encodeAccountValue } from '../records/coding/blockRecord.js';
import type { Entry } from '../records/Database.js';
import { accountKey } from '../records/schema.js';

/** A collection whose transactions are located, as in `VerifiedCollection`. */
export interface LocatedCollection {
  readonly encoded: Uint8Array;
  /** Two numbers per transaction: its offset in `encoded` and its length. */
  readonly ranges: ArrayLike<number>;
}

/**
 * The account entries of a block: one for each account of each of its transactions. As with `BlockEntryWriter`, commit,
 * rewind and verify all use this one definition.
 */
export function putAccounts(height: number, collections: readonly LocatedCollection[], put: Put): void {
  let bodyOffset = 0;
  for (const [collectionIndex, { encoded, ranges }] of collections.entries()) {
    for (let index = 0; index < ranges.length / 2; index += 1) {
      const start = ranges[2 * index] as number;
      const length = ranges[2 * index + 1] as number;
      for (const { address, roles } of accountsOf(encoded.subarray(start, start + length))) {
        const key = accountKey({ address, height, collectionIndex, transactionIndex: index });
        put(key, seal(key, encodeAccountValue({ roles, offset: bodyOffset + start, length })));
      }
    }
    bodyOffset += encoded.length;
  }
}

/** Finds the transactions of a stored collection. Expected errors: `WireError`. */
export function locate(encoded: Uint8Array): LocatedCollection {
  const ranges = splitCollection(encoded).flatMap((transaction) => [
    transaction.byteOffset - encoded.byteOffset,
    transaction.length,
  ]);
  return { encoded, ranges };
}

/** Every pointer to what a block holds, and its account entries if wanted. */
export function entriesOf(entry: BlockEntry, withAccounts: boolean): Entry[] {
  const entries: Entry[] = [];
  const put: Put = (key, value) => void entries.push([Buffer.from(key), Buffer.from(value)]);
  putPointers(entry, put);
  if (withAccounts) putAccounts(entry.block.height, entry.collections, put);
  return entries;
}
