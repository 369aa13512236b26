import type { HeightRange } from '../../IndexStore.js';
import type { BlockRows } from '../tables/BlockRows.js';
import type { Session } from '../connection/PostgresDatabase.js';

/** A row in words: the same words for the same row, whether the database has it or a block's bytes say so. */
export interface ComparedRow {
  readonly table: string;
  readonly height: number;
  readonly row: string;
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

const WORDS: Readonly<Record<string, string>> = {
  block: `concat_ws('|', encode(id, 'hex'), encode(parent_id, 'hex'),
    coalesce((extract(epoch FROM time) * 1000000)::bigint::text, '-'), collections, transactions)`,
  collection: `concat_ws('|', collection_index, encode(id, 'hex'), transactions, body_offset, bytes)`,
  transaction: `concat_ws('|', collection_index, transaction_index, encode(id, 'hex'), encode(payer, 'hex'),
    encode(proposer, 'hex'), proposer_key, sequence_number, authorizers::text, encode(script_hash, 'hex'),
    encode(reference_block_id, 'hex'), gas_limit, body_offset, bytes,
    (SELECT count(*) FROM flow_store.script WHERE hash = script_hash))`,
  account_transaction: `concat_ws('|', encode(address, 'hex'), collection_index, transaction_index, roles)`,
};

/** The rows of some heights. Expected errors: those of the session. */
export async function storedRows(session: Session, { from, to }: HeightRange): Promise<ComparedRow[]> {
  const found: ComparedRow[] = [];
  for (const [table, words] of Object.entries(WORDS)) {
    const { rows } = await session.query<{ height: string; row: string }>({
      text: `SELECT height, ${words} AS row FROM flow_store.${table} WHERE height BETWEEN $1 AND $2`,
      values: [from, to],
    });
    for (const { height, row } of rows) found.push({ table, height: Number(height), row });
  }
  return found;
}

const EPOCH_2000_MICROSECONDS = 946_684_800_000_000n;

/** As `table height row`. */
export function expectedRows({ blocks, collections, transactions, accounts }: BlockRows): Set<string> {
  const words = new Set<string>();
  const add = (table: string, height: number, values: readonly (string | number | bigint)[]): void => {
    words.add(`${table} ${height} ${values.join('|')}`);
  };
  for (const row of blocks) {
    const time = row.time === undefined ? '-' : row.time + EPOCH_2000_MICROSECONDS;
    add('block', row.height, [hex(row.id), hex(row.parentId), time, row.collections, row.transactions]);
  }
  for (const row of collections) {
    const { height, collectionIndex, id, transactions: count, bodyOffset, bytes } = row;
    add('collection', height, [collectionIndex, hex(id), count, bodyOffset, bytes]);
  }
  for (const row of transactions) {
    const { decoded } = row;
    add('transaction', row.height, [
      ...[row.collectionIndex, row.transactionIndex, hex(row.id), row.payer, row.proposer],
      ...[decoded.proposalKey?.keyId ?? 0, decoded.proposalKey?.sequenceNumber ?? 0],
      `{${row.authorizers.map((each) => `"\\\\x${each}"`).join()}}`,
      ...[hex(row.scriptHash), hex(decoded.referenceBlockId), decoded.gasLimit, row.bodyOffset, row.bytes],
      // Its script is there, once.
      1,
    ]);
  }
  for (const { address, height, collectionIndex, transactionIndex, roles } of accounts) {
    add('account_transaction', height, [address, collectionIndex, transactionIndex, roles]);
  }
  return words;
}
