import { accountRoles, parseAddress, type AccountRole } from '../../flow/index.js';
import { quoted } from '../../runtime/index.js';
import type { AccountPage, IndexReader, Place } from '../../storage/index.js';
import * as T from '../Schema.js';
import { ApiError, healing, invalidArgument as invalid, nothingIndexed } from '../view/ApiError.js';
import { firstLinked, type IndexedRange } from '../view/indexedRange.js';

/** Transactions per page: at most, and by default. */
export const MAX_PAGE_ITEMS = 50;
export const DEFAULT_PAGE_ITEMS = 20;

/** The roles to filter by; all of them by default. */
export const accountRoleNames: readonly AccountRole[] = ['payer', 'proposer', 'authorizer'];

const transactionSchema = T.object({
  id: T.identifier,
  height: T.count,
  block_id: T.identifier,
  collection_id: T.identifier,
  collection_index: T.count,
  transaction_index: T.count,
  roles: T.arrayOf(T.words(...accountRoleNames), accountRoleNames.length),
});

/** A page of an account's transactions, newest first. */
export const accountTransactionsSchema = T.object({
  kind: T.words('account'),
  address: T.address,
  covered: T.object({ from: T.count, to: T.countFrom(-1) }).note(
    'The heights that the index covers, both ends included; empty while the first is above the second.',
  ),
  complete: T.flag.note('False: the index does not reach down to the first indexed height yet.'),
  transactions: T.arrayOf(transactionSchema, MAX_PAGE_ITEMS),
  next_cursor: T.text.orNull.note('Leads to older ones, even when this page is empty; null: there are none.'),
}).named('AccountTransactions');

/** A page request as received; a missing parameter is an empty text. */
export type AccountRequest = Readonly<Record<'address' | 'role' | 'limit' | 'cursor', string>>;

type PageRequest = Parameters<IndexReader['accounts']['page']>[0];

/**
 * A page of an account's transactions, of a running daemon or a closed store. Expected errors: ApiError (400 for malformed input,
 * and those of `accountPage`), StorageError.
 */
export async function accountDocument(
  reader: Pick<IndexReader, 'accounts'>,
  requested: AccountRequest,
  range: IndexedRange,
): Promise<T.Described<typeof accountTransactionsSchema>> {
  const request = parseAccountRequest(requested);
  const { transactions, next, coverage, isComplete } = await accountPage(reader, request, range);
  return {
    kind: 'account',
    address: request.address,
    covered: { from: coverage.from, to: coverage.to },
    complete: isComplete,
    transactions: transactions.map(({ id, place, roles, ...of }) => ({
      id,
      height: place.height,
      block_id: of.blockId,
      collection_id: of.collectionId,
      collection_index: place.collectionIndex,
      transaction_index: place.transactionIndex,
      roles: roleNamesOf(roles),
    })),
    next_cursor: next === undefined ? null : encodeCursor(next).toString('base64url'),
  };
}

/** Expected errors: ApiError (400). */
export function parseAccountRequest({ address: given, role, limit, cursor }: AccountRequest): PageRequest {
  const address = parseAddress(given);
  if (address === undefined) {
    const message = `invalid address: expected 16 hexadecimal digits, with or without 0x, got ${quoted(given)}`;
    throw new ApiError(400, 'malformed_address', message);
  }
  const name = accountRoleNames.find((known) => known === role);
  if (name === undefined && role !== '')
    throw invalid(
      `invalid role: expected ${accountRoleNames.join(', ')}, or none for all, got ${quoted(role)}`,
    );
  if (limit !== '' && !/^\d{1,9}$/.test(limit))
    throw invalid(`invalid limit: expected a number from 1 to ${MAX_PAGE_ITEMS}, got ${quoted(limit)}`);
  // Decoding skips characters outside base64, so the bytes must encode back to what was given.
  const bytes = Buffer.from(cursor, 'base64url');
  return {
    address,
    roles: name === undefined ? ANY_ROLE : accountRoles[name],
    limit: limit === '' ? DEFAULT_PAGE_ITEMS : checkLimit(Number(limit)),
    before: decodeCursor(bytes.toString('base64url') === cursor ? bytes : Buffer.alloc(1)),
  };
}

/**
 * Only transactions of blocks from `firstIndexed` to `latestIndexed`. Expected errors: ApiError (404 while nothing is indexed or
 * without the index, 503 at the end of the list while a height heals), StorageError.
 */
export async function accountPage(
  { accounts }: Pick<IndexReader, 'accounts'>,
  request: PageRequest,
  range: IndexedRange,
): Promise<AccountPage & { readonly isComplete: boolean }> {
  if (accounts.coverage() === undefined) {
    const message = 'the account index is off: start the daemon with --index-accounts (index.accounts: true)';
    throw new ApiError(404, 'index_off', message);
  }
  const { firstIndexed, latestIndexed: to } = range;
  if (firstIndexed === null || to === null) throw nothingIndexed(range);
  const from = firstLinked(firstIndexed, range);
  const top = { height: to + 1, collectionIndex: 0, transactionIndex: 0 };
  const before = request.before !== undefined && request.before.height <= to ? request.before : top;
  const { transactions, next, coverage } = await accounts.page({ ...request, before });
  const endsAtHealing = range.healing?.some((each) => each.from >= from && each.to < coverage.from);
  // Nothing is added to the index below meanwhile.
  if (next === undefined && endsAtHealing === true)
    throw healing(`a height above ${from} was damaged and is fetched again: the list ends there; retry`);
  return {
    transactions: transactions.filter(({ place }) => place.height >= from),
    next: next !== undefined && next.height >= from ? next : undefined,
    coverage: { ...coverage, from: Math.max(from, coverage.from), to: Math.min(to, coverage.to) },
    isComplete: coverage.from <= from,
  };
}

/** The names of the roles in a sum of their bits. */
export function roleNamesOf(roles: number): readonly AccountRole[] {
  return accountRoleNames.filter((name) => (roles & accountRoles[name]) !== 0);
}

export const ANY_ROLE = accountRoleNames.reduce((sum, name) => sum + accountRoles[name], 0);

const CURSOR_BYTES = 16;

/** The place at which a page ended: still valid after more is indexed. */
export function encodeCursor({ height, collectionIndex, transactionIndex }: Place): Buffer {
  const cursor = Buffer.alloc(CURSOR_BYTES);
  cursor.writeBigUInt64BE(BigInt(height), 0);
  cursor.writeUInt32BE(collectionIndex, 8);
  cursor.writeUInt32BE(transactionIndex, 12);
  return cursor;
}

/** `undefined` for an empty cursor. Expected errors: ApiError (400). */
export function decodeCursor(cursor: Buffer): Place | undefined {
  if (cursor.length === 0) return undefined;
  if (cursor.length === CURSOR_BYTES) {
    const height = Number(cursor.readBigUInt64BE(0));
    if (Number.isSafeInteger(height)) {
      return { height, collectionIndex: cursor.readUInt32BE(8), transactionIndex: cursor.readUInt32BE(12) };
    }
  }
  throw invalid('invalid cursor: pass next_cursor of the previous page, or nothing for the newest');
}

/** Expected errors: ApiError (400). */
export function checkLimit(limit: number): number {
  if (limit >= 1 && limit <= MAX_PAGE_ITEMS) return limit;
  if (limit < 1) throw invalid(`invalid limit: expected a number from 1 to ${MAX_PAGE_ITEMS}, got ${limit}`);
  const message = `at most ${MAX_PAGE_ITEMS} transactions can be requested at a time, got ${limit}`;
  throw new ApiError(400, 'too_many', message);
}
