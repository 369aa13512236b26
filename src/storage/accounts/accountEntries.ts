import { accountsOf, toIdentifier, transactionId } from '../../flow/index.js';
import type { BlockEntry } from '../port/RangeStore.js';
import { putPointers, type Put } from '../records/blocks/BlockEntryWriter.js';
import { seal } from '../records/coding/seal.js';
import { encodeAccountValue, type AccountValue } from '../records/coding/blockRecord.js';
import type { Entry, Database } from '../records/Database.js';
import { accountKey, keyAfter, type AccountKey } from '../records/schema.js';
import type { AccountCoverage, AccountPage, AccountQuery, AccountTransaction } from '../port/AccountIndex.js';
import type { Place } from '../port/stored.js';
import { openAccountEntry, placeOf } from '../records/blocks/openPointers.js';
import { readBody } from '../records/blocks/readBlocks.js';
import { corruptRecord } from '../StorageError.js';

/**
 * The account entries of a block: one for each account of each of its transactions. As with `BlockEntryWriter`, commit,
 * rewind and verify all use this one definition.
 */
export function putAccounts({ block: { height }, collections }: BlockEntry, put: Put): void {
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

/** Every pointer to what a block holds, and its account entries if wanted. */
export function entriesOf(entry: BlockEntry, withAccounts: boolean): Entry[] {
  const entries: Entry[] = [];
  const put: Put = (key, value) => void entries.push([Buffer.from(key), Buffer.from(value)]);
  putPointers(entry, put);
  if (withAccounts) putAccounts(entry, put);
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
  { address, before, limit, roles }: AccountQuery,
  coverage: AccountCoverage,
): Promise<AccountPage> {
  const { from, missingHeights, to } = coverage;
  const atHeight = (height: number) => ({ height, collectionIndex: 0, transactionIndex: 0 });
  const [bottom, top] = [atHeight(from), atHeight(to + 1)];
  const after = (place: Place): Buffer => keyAfter(accountKey({ address, ...place }));
  const transactions: AccountTransaction[] = [];
  let examined = 0;
  let last = before === undefined || before.height > to ? top : before;
  for (;;) {
    const range = { gte: after(last), lt: after(bottom) };
    const entries = await database.first(range, Math.min(READ_AT_ONCE, limit + 1));
    for (const each of entries) {
      const entry = openAccountEntry(each);
      const isWanted = (entry.roles & roles) !== 0;
      if (isWanted ? transactions.length === limit : examined >= MAX_EXAMINED)
        return { transactions, next: last, coverage };
      if (isWanted) transactions.push(await follow(database, entry));
      examined += 1;
      last = placeOf(entry);
    }
    if (entries.length > 0) continue;
    // The end of the coverage. There may be more below it, not indexed yet.
    const next = last.height < from ? last : bottom;
    return { transactions, next: missingHeights === 0 ? undefined : next, coverage };
  }
}

async function follow(database: Database, entry: AccountKey & AccountValue): Promise<AccountTransaction> {
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
