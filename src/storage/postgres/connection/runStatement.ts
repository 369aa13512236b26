import type { Pool, PoolClient, QueryResultRow } from 'pg';
import type { Rows, Statement } from './Session.js';

/** Errors are the server's own. */
export async function runStatement<Row extends QueryResultRow>(
  via: Pool | PoolClient,
  { name, text, values, timeoutMs }: Statement,
): Promise<Rows<Row>> {
  const { rows, rowCount } = await via.query<Row>({
    ...(name === undefined ? {} : { name }),
    text,
    values: [...(values ?? [])],
    ...(timeoutMs === undefined ? {} : { query_timeout: timeoutMs }),
  });
  return { rows, rowCount: rowCount ?? 0 };
}
