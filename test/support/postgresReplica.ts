import { spawn, spawnSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { lastingPort } from './lastingPort.js';
import { asAdmin } from './postgresServer.js';

const DEBIAN = '/usr/lib/postgresql';
const START_TIMEOUT_MS = 30_000;

/** A streaming replica of a server that the tests have started. */
export interface PostgresReplicaServer {
  /** The replica of the database of a URL. */
  urlOf(url: string): string;
  /** Takes no more of what the other has written, until it is let. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  close(): Promise<void>;
}

/** The program that makes replicas, where it is installed; the npm package with the other programs lacks it. */
export function replicaMaker(): string | undefined {
  if (!existsSync(DEBIAN)) return undefined;
  return readdirSync(DEBIAN)
    .map((version) => join(DEBIAN, version, 'bin'))
    .find((binaries) => existsSync(join(binaries, 'pg_basebackup')));
}

/** Makes one, and waits until it answers. `url`: of any database of the server. */
export async function startReplica(url: string, binaries: string): Promise<PostgresReplicaServer> {
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
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    fsync: 'off',
    max_connections: 60,
  };
  const given = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const server = spawn(join(binaries, 'postgres'), ['-D', data, ...given], {
    cwd: directory,
    stdio: 'ignore',
    ...user,
  });
  const urlOf = (each: string): string => {
    const its = new URL(each);
    its.port = String(port);
    return its.href;
  };
  await answering(urlOf(url), server);
  return {
    urlOf,
    pause: async () => {
      await asAdmin(urlOf(url), 'SELECT pg_wal_replay_pause()');
    },
    resume: async () => {
      await asAdmin(urlOf(url), 'SELECT pg_wal_replay_resume()');
    },
    close: async () => {
      if (server.exitCode === null) {
        const ended = once(server, 'exit');
        server.kill('SIGQUIT');
        await ended;
      }
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

async function answering(url: string, server: ChildProcess): Promise<void> {
  const untilMs = Date.now() + START_TIMEOUT_MS;
  for (;;) {
    if (server.exitCode !== null || Date.now() > untilMs) throw new Error('the replica did not start');
    try {
      await asAdmin(url, 'SELECT 1');
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
