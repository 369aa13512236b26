import { spawnSync } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readdirSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { OwnPostgres } from '../../scripts/postgres.mjs';
import { lastingPort } from './lastingPort.js';
import { asAdmin } from './postgresServer.js';

const DEBIAN = '/usr/lib/postgresql';

/** The program that makes replicas, where it is installed; the npm package with the other programs lacks it. */
export function replicaMaker(): string | undefined {
  if (!existsSync(DEBIAN)) return undefined;
  return readdirSync(DEBIAN)
    .map((version) => join(DEBIAN, version, 'bin'))
    .find((binaries) => existsSync(join(binaries, 'pg_basebackup')));
}

/** A streaming replica of a server that the tests have started, which answers. `url`: of any database of the server. */
export async function startReplica(url: string, binaries: string) {
  const { rows } = await asAdmin(url, 'SHOW data_directory');
  const { uid, gid } = statSync((rows[0] as { data_directory: string }).data_directory);
  const user = process.getuid?.() === 0 ? { uid, gid } : {};
  const directory = mkdtempSync(join(tmpdir(), 'fci-replica-'));
  if (process.getuid?.() === 0) chownSync(directory, uid, gid);
  const { hostname, port: from, username } = new URL(url);
  const data = join(directory, 'data');
  const made = spawnSync(
    join(binaries, 'pg_basebackup'),
    ['-h', hostname, '-p', from, '-U', username, '-D', data, '-R', '-X', 'stream', '-c', 'fast', '--no-sync'],
    { cwd: directory, encoding: 'utf8', ...user },
  );
  if (made.status !== 0) throw new Error(`pg_basebackup failed: ${made.stderr}${String(made.error ?? '')}`);
  const port = await lastingPort();
  const settings = { fsync: 'off', max_connections: '60' };
  const server = new OwnPostgres({ directory: binaries, user }, { directory, port, settings });
  await server.start();
  const urlOf = (each: string): string => {
    const its = new URL(each);
    its.port = String(port);
    return its.href;
  };
  return {
    urlOf,
    /** Takes no more of what the other has written, until it is let. */
    pause: () => asAdmin(urlOf(url), 'SELECT pg_wal_replay_pause()'),
    resume: () => asAdmin(urlOf(url), 'SELECT pg_wal_replay_resume()'),
    close: () => server.close(),
  };
}
