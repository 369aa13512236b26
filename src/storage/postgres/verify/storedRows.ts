import type { HeightRange } from '../../port/stored.js';
import type { Session } from '../connection/Session.js';

/** A row in words: the same words for the same row, whether the database has it or a block's bytes say so. */
export interface StoredRow {
  readonly table: string;
  readonly height: number;
  readonly row: string;
}

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
export async function storedRows(session: Session, { from, to }: HeightRange): Promise<StoredRow[]> {
  const found: StoredRow[] = [];
  for (const [table, words] of Object.entries(WORDS)) {
    const { rows } = await session.query<{ height: string; row: string }>({
      text: `SELECT height, ${words} AS row FROM flow_store.${table} WHERE height BETWEEN $1 AND $2`,
      values: [from, to],
    });
    for (const { height, row } of rows) found.push({ table, height: Number(height), row });
  }
  return found;
}
