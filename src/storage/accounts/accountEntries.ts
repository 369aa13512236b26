import { accountsOf, splitCollection, toIdentifier, transactionId, type Address } from '../../flow/index.js';
import type { BlockEntry } from '../port/RangeStore.js';
import { putPointers, type Put } from '../records/blocks/BlockEntryWriter.js';
import { seal } from '../records/coding/seal.js';
import { encodeAccountValue, type AccountValue } from '../records/coding/blockRecord.js';
import type { Entry, Database } from '../records/Database.js';
import { accountKey, keyAfter, type AccountKey, type KeyRange } from '../records/schema.js';
import type { AccountCoverage, AccountPage, AccountQuery, AccountTransaction } from '../port/AccountIndex.js';
import type { TransactionPlace } from '../port/stored.js';
import { openAccountEntry, placeOf } from '../records/blocks/openPointers.js';
import { readBody } from '../records/blocks/readBlocks.js';
import { corruptRecord } from '../StorageError.js';

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

/** The most entries of other roles that one page skips; then the caller must request the next page. */
const MAX_EXAMINED = 2_000;
/** Entries read at once. */
const READ_AT_ONCE = 256;

/**
 * One page of an account's transactions: a forward scan over neighbouring keys, plus the block of each hit. Expected
 * errors: `StorageError`.
 */
export async function readAccountPage(
  database: Database,
  query: AccountQuery,
  coverage: AccountCoverage,
): Promise<AccountPage> {
  const top = { height: coverage.to + 1, collectionIndex: 0, transactionIndex: 0 };
  const bottom = { height: coverage.from, collectionIndex: 0, transactionIndex: 0 };
  const before = query.before === undefined ? top : lower(query.before, top);
  const { found, next } = await scan(database, query, { before, bottom });
  const transactions: AccountTransaction[] = [];
  for (const entry of found) transactions.push(await follow(database, entry));
  if (next !== undefined) return { transactions, next, coverage };
  // The scan reached the end of the coverage. There may be more below it, not indexed yet.
  const isEnd = coverage.missingHeights === 0;
  return { transactions, next: isEnd ? undefined : lower(before, bottom), coverage };
}

type FoundEntry = AccountKey & AccountValue;

async function scan(
  database: Database,
  { address, limit, roles }: AccountQuery,
  { before, bottom }: { readonly before: TransactionPlace; readonly bottom: TransactionPlace },
): Promise<{ readonly found: readonly FoundEntry[]; readonly next: TransactionPlace | undefined }> {
  const found: FoundEntry[] = [];
  let examined = 0;
  let last = before;
  for (;;) {
    const entries = await database.first(below(address, last, bottom), Math.min(READ_AT_ONCE, limit + 1));
    for (const entry of entries) {
      const opened = openAccountEntry(entry);
      if ((opened.roles & roles) !== 0) {
        if (found.length === limit) return { found, next: last };
        found.push(opened);
      } else if (examined >= MAX_EXAMINED) return { found, next: last };
      examined += 1;
      last = placeOf(opened);
    }
    if (entries.length === 0) return { found, next: undefined };
  }
}

/** The keys of an account from below one place down to another, the latter included. */
function below(address: Address, before: TransactionPlace, bottom: TransactionPlace): KeyRange {
  const after = (place: TransactionPlace): Buffer => keyAfter(accountKey({ address, ...place }));
  return { gte: after(before), lt: after(bottom) };
}

async function follow(database: Database, entry: FoundEntry): Promise<AccountTransaction> {
  const { height, collectionIndex, roles } = entry;
  const found = await readBody(database, height, entry);
  const block = found?.read.block;
  const collectionId = block?.collectionIds[collectionIndex];
  if (found === undefined || block === undefined || collectionId === undefined) {
    throw corruptRecord('entry of the account index', height, 'there is no such block or collection');
  }
  const id = toIdentifier(transactionId(found.bytes));
  return { id, place: placeOf(entry), blockId: block.id, collectionId, roles };
}

/** The lower of two places. */
function lower(left: TransactionPlace, right: TransactionPlace): TransactionPlace {
  const difference =
    left.height - right.height ||
    left.collectionIndex - right.collectionIndex ||
    left.transactionIndex - right.transactionIndex;
  return difference <= 0 ? left : right;
}
