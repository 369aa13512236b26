import pg from 'pg';
import type { HeightRange } from '../../../src/storage/index.js';
import { copyIn, copyOut } from './copy.js';

/** The data of blocks. */
const TABLES = ['block', 'body', 'collection', 'transaction', 'account_transaction'];

/** What one commit writes into one table. */
interface TableRows {
  readonly table: string;
  readonly rows: Buffer;
}

/** Everything that one commit writes. */
export type CommitRows = readonly TableRows[];

/**
 * The *COPY-only* writer: the rows that the store has written, as PostgreSQL itself gives them in its binary form, into
 * the same tables in the same commits. It makes no row, checks nothing, and keeps no state.
 */
export class CopyOnlyWriter {
  readonly #client: pg.Client;

  private constructor(client: pg.Client) {
    this.#client = client;
  }

  /** Into a database that has the tables, and the partitions of the heights. */
  static async open(url: string): Promise<CopyOnlyWriter> {
    return new CopyOnlyWriter(await connected(url));
  }

  async write(commit: CommitRows): Promise<void> {
    await this.#client.query('BEGIN');
    for (const { table, rows } of commit) {
      await copyIn(this.#client, `COPY flow_store.${table} FROM STDIN (FORMAT binary)`, rows);
    }
    await this.#client.query('COMMIT');
  }

  close(): Promise<void> {
    return this.#client.end();
  }
}

/** Reads the rows of these commits out of a database to which the store has written them. */
export async function readCommits(url: string, commits: readonly HeightRange[]): Promise<CommitRows[]> {
  const client = await connected(url);
  // A script is stored once, with the first transaction that has it.
  await client.query(
    `CREATE TEMP TABLE first AS SELECT script_hash AS hash, min(height) AS height
      FROM flow_store.transaction GROUP BY script_hash`,
  );
  const rows: CommitRows[] = [];
  for (const { from, to } of commits) {
    const within = `height BETWEEN ${from} AND ${to}`;
    const of = async (table: string, query: string): Promise<TableRows> => ({
      table,
      rows: await copyOut(client, `COPY (${query}) TO STDOUT (FORMAT binary)`),
    });
    const commit: TableRows[] = [];
    for (const table of TABLES) {
      commit.push(await of(table, `SELECT * FROM flow_store.${table} WHERE ${within}`));
    }
    const scripts = `SELECT script.* FROM flow_store.script JOIN first USING (hash) WHERE ${within} ORDER BY hash`;
    rows.push([...commit, await of('script', scripts)]);
  }
  await client.end();
  return rows;
}

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, options: '-c synchronous_commit=on' });
  await client.connect();
  return client;
}
