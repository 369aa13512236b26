import type { HeightRange } from '../../port/stored.js';
import type { Session } from '../connection/Session.js';

/** A row as a text, which is the same for a row of the database and one that is derived from a block's bytes. */
export interface StoredRow {
  readonly table: string;
  readonly height: number;
  readonly row: string;
}

/** A store of a build before 0.1.0 may have null for no time, and reference ids of another length as they came. */
const ROW_TEXTS: Readonly<Record<string, string>> = {
  block: `concat_ws('|', encode(id, 'hex'), encode(parent_id, 'hex'),
    (extract(epoch FROM coalesce(time, '0001-01-01 00:00:00+00')) * 1000000)::bigint, collections, transactions)`,
  collection: `concat_ws('|', collection_index, encode(id, 'hex'), transactions, body_offset, bytes)`,
  transaction: `concat_ws('|', collection_index, transaction_index, encode(id, 'hex'), encode(payer, 'hex'),
    encode(proposer, 'hex'), proposer_key, sequence_number, authorizers::text, encode(script_hash, 'hex'),
    rpad(encode(reference_block_id, 'hex'), 64, '0'), gas_limit, body_offset, bytes,
    (SELECT count(*) FROM flow_store.script WHERE hash = script_hash))`,
  account_transaction: `concat_ws('|', encode(address, 'hex'), collection_index, transaction_index, roles)`,
};

/** The rows of some heights. Expected errors: those of the session. */
export async function storedRows(session: Session, { from, to }: HeightRange): Promise<StoredRow[]> {
  const found: StoredRow[] = [];
  for (const [table, text] of Object.entries(ROW_TEXTS)) {
    const { rows } = await session.query<{ height: number; row: string }>({
      text: `SELECT height, ${text} AS row FROM flow_store.${table} WHERE height BETWEEN $1 AND $2`,
      values: [from, to],
    });
    for (const { height, row } of rows) found.push({ table, height, row });
  }
  return found;
}
