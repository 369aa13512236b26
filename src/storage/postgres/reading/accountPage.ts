import { ok as assert } from 'node:assert/strict';
import { addressBytes } from '../../../flow/index.js';
import type { AccountCoverage, AccountPage, AccountQuery, AccountEntry } from '../../port/AccountIndex.js';
import type { TransactionPlace } from '../../port/stored.js';
import type { Session } from '../connection/Session.js';

/** Entries of other roles that one page of an account skips at most; then the caller has to ask again. */
const MAX_EXAMINED = 2_000;
const ALL_ROLES = 7;

/** Like `AccountReader.page`, for the heights of `coverage`. */
export async function readAccountPage(
  session: Session,
  { address, roles, before, limit }: AccountQuery,
  coverage: AccountCoverage | undefined,
): Promise<AccountPage> {
  assert(coverage !== undefined, 'the account index is off');
  const top = { height: coverage.to + 1, collectionIndex: 0, transactionIndex: 0 };
  const below = before === undefined || before.height > coverage.to ? top : before;
  const most = roles === ALL_ROLES ? limit + 1 : limit + 1 + MAX_EXAMINED;
  const { rows } = await session.query<AccountRow>({
    name: 'account_page',
    text: ACCOUNT_PAGE,
    values: [
      ...[addressBytes(address), below.height, below.collectionIndex, below.transactionIndex],
      ...[coverage.from, most, roles, limit + 1],
    ],
  });
  const all = rows.map(({ height, collectionIndex, transactionIndex, matches, ...transaction }) => {
    return { matches, transaction: { ...transaction, place: { height, collectionIndex, transactionIndex } } };
  });
  const found = all.flatMap(({ matches, transaction }) => (matches ? [transaction] : []));
  const transactions = found.slice(0, limit);
  if (found.length > limit) return { transactions, next: transactions.at(-1)?.place, coverage };
  // A last row without a match: the limit of examined entries was reached, and there may be more below.
  return { transactions, next: all.find(({ matches }) => !matches)?.transaction.place, coverage };
}

/**
 * The entries below a place, newest first. Examines at most $6 entries; returns those that match, and the last examined
 * one if there were that many.
 */
const ACCOUNT_PAGE = `
  WITH entry AS MATERIALIZED (
    SELECT height, collection_index, transaction_index, roles FROM flow_store.account_transaction
    WHERE address = $1 AND height >= $5 AND height <= $2
      AND (height, collection_index, transaction_index) < ($2, $3, $4)
    ORDER BY height DESC, collection_index DESC, transaction_index DESC LIMIT $6
  ), found AS (
    SELECT *, true AS matches FROM entry WHERE (roles & $7) <> 0
    ORDER BY height DESC, collection_index DESC, transaction_index DESC LIMIT $8
  ), last AS (
    SELECT *, false AS matches FROM entry WHERE (SELECT count(*) FROM entry) = $6
    ORDER BY height, collection_index, transaction_index LIMIT 1
  )
  SELECT page.height, page.collection_index AS "collectionIndex", page.transaction_index AS "transactionIndex", roles,
    matches, encode(transaction.id, 'hex') AS id, encode(block.id, 'hex') AS "blockId",
    encode(collection.id, 'hex') AS "collectionId"
  FROM (SELECT * FROM found UNION ALL SELECT * FROM last) AS page
    JOIN flow_store.transaction USING (height, collection_index, transaction_index)
    JOIN flow_store.collection USING (height, collection_index)
    JOIN flow_store.block USING (height)
  ORDER BY matches DESC, page.height DESC, page.collection_index DESC, page.transaction_index DESC`;

type AccountRow = AccountEntry & TransactionPlace & { readonly matches: boolean };
