// `npm run quickstart`: installs, builds, starts the simulated access node and the daemon, catches up and follows the
// tip. Ctrl-C stops everything and leaves nothing running. `-- --blocks N` sets the length of the history,
// `-- --once` ends after catching up. `-- --cluster`: two daemons share one PostgreSQL server; one of them follows the tip,
// both fill in the history.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  accessSync,
  constants,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { get } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { json } from 'node:stream/consumers';
import { isatty } from 'node:tty';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const program = join(root, 'dist', 'main.js');

const parent = process.ppid;

const USAGE = 'usage: npm run quickstart -- [--blocks N] [--once] [--cluster]';
const options = readOptions();
if (options.help) {
  console.log(USAGE);
  process.exit(0);
}
if (!/^\d{1,9}$/.test(options.blocks)) {
  console.error('--blocks needs a number of blocks, such as 5000.');
  process.exit(64);
}

function readOptions() {
  try {
    return parseArgs({
      options: {
        blocks: { type: 'string', default: '5000' },
        once: { type: 'boolean', default: false },
        cluster: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    }).values;
  } catch (error) {
    console.error(`${error.message}\n${USAGE}`);
    process.exit(64);
  }
}

const dataDir = isWritable(root)
  ? join(root, 'data', 'quickstart')
  : mkdtempSync(join(tmpdir(), 'fci-quickstart-data-'));

function isWritable(folder) {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Standard output, never waited for: this process has others to stop, whether or not anybody reads what it says. */
const output = openOutput();
/** In a terminal, in the place of the daemon's progress line. */
const overwrite = isatty(1) ? '\r\x1b[K' : '';
function say(line = '') {
  try {
    writeSync(output, `${overwrite}${line}\n`);
  } catch {
    // A terminal that stands still, or a reader that has gone.
  }
}

function openOutput() {
  if (fstatSync(1).isFile()) return 1;
  // Not for a socket, which Node.js makes non-blocking when it makes a stream of it.
  try {
    return openSync('/proc/self/fd/1', constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    return process.stdout.fd;
  }
}

const former = readRecord();
if (former !== undefined && (await readStatus(former.api))?.instance === former.instance) {
  say(`A quickstart runs already (its daemon is process ${former.pid}). Stop it with Ctrl-C first.`);
  process.exit(1);
}
if (isWritable(root)) claim(`${dataDir}.pid`);

/** From before it installs and builds: what one makes here, another would replace. */
function claim(mark) {
  mkdirSync(dirname(mark), { recursive: true });
  const holder = holderOf(mark);
  if (holder !== undefined) {
    say(`A quickstart runs already (process ${holder}). Stop it with Ctrl-C first.`);
    say(`If that process is another program, delete ${mark}.`);
    process.exit(1);
  }
  writeFileSync(mark, String(process.pid));
  process.on('exit', () => rmSync(mark, { force: true }));
}

/** The process that left the mark, while it runs. */
function holderOf(mark) {
  try {
    const pid = Number(readFileSync(mark, 'utf8'));
    return pid > 0 && pid !== process.pid && process.kill(pid, 0) ? pid : undefined;
  } catch (error) {
    return error.code === 'EPERM' ? 'of another user' : undefined;
  }
}

await import('./ensure-installed.mjs');
say('Building …');
const build = spawnSync(process.execPath, [join(root, 'scripts', 'build.mjs')], {
  cwd: root,
  stdio: ['ignore', 2, 2],
});
if (build.status !== 0) process.exit(build.status ?? 1);

/** Settings for another daemon, such as a token or a store, must not reach these. How they log may. */
const foreign = Object.keys(process.env).filter((name) => /^FCI_(?!LOG_)/.test(name));
if (foreign.length > 0) {
  say(`Ignoring ${foreign.join(', ')} from the environment. Unset them for the commands below, too.`);
  for (const name of foreign) delete process.env[name];
}

/** Children in the order of their start; stopped in reverse. */
const children = [];
/** A promise of the PostgreSQL server of --cluster, from before it starts. It is stopped last. */
let database;
let stopping;

async function launch(name, args, stdio) {
  // A child started during the stop would be left running.
  if (stopping !== undefined) await stopping;
  const child = spawn(process.execPath, [program, ...args], { cwd: root, stdio });
  child.exited = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
  child.exited.then((outcome) => {
    if (stopping === undefined) {
      say(`The ${name} ended by itself (${outcome}): see its output above.`);
      void stop(1);
    }
  });
  children.push(child);
  return child;
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const isRunning = (child) => child.exitCode === null && child.signalCode === null;

/** Ctrl-C in a terminal reaches the children too, and a second signal would force them to end. So they get time first. */
const TERMINAL_GRACE_MS = 3000;
/** How soon it notices that the npm which started it is gone. */
const ORPHAN_CHECK_MS = 500;
/** Longer than any child takes to stop. */
const STOP_TIMEOUT_MS = 15_000;

/** Stops the daemons, then the node that they read from, and ends this process. */
function stop(code, fromTerminal = false) {
  stopping ??= (async () => {
    if (fromTerminal) {
      await Promise.race([Promise.all(children.map(({ exited }) => exited)), pause(TERMINAL_GRACE_MS)]);
    }
    for (const child of [...children].reverse()) {
      if (!isRunning(child)) continue;
      child.kill('SIGTERM');
      await Promise.race([child.exited, pause(STOP_TIMEOUT_MS)]);
      if (isRunning(child)) child.kill('SIGKILL');
      await child.exited;
    }
    await database?.then((server) => server.close()).catch(() => undefined);
    say(code === 0 ? 'Everything is stopped.' : 'Stopped.');
    process.exit(code);
  })();
  return stopping;
}
process.on('SIGINT', () => void stop(0, process.stdin.isTTY === true));
process.on('SIGTERM', () => void stop(0));
process.on('SIGQUIT', () => void stop(0));
process.on('SIGHUP', () => void stop(0));
// What could not be started leaves the rest running no more than a signal does.
process.on('uncaughtException', (error) => {
  say(error.stack);
  void stop(1);
});
// npm passes a signal on to its shell, which ends without a word to this process.
if (process.env.npm_command !== undefined) {
  setInterval(() => {
    if (process.ppid !== parent) void stop(0);
  }, ORPHAN_CHECK_MS).unref();
}

/** A port that is free now. */
function anyPort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

/** The preferred port, or 0 (any) when something else listens there. */
function freePort(preferred) {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(0));
    probe.listen(preferred, '127.0.0.1', () => probe.close(() => resolve(preferred)));
  });
}

/** Repeats `ask` until it returns an answer. If a child ends, this process ends too. */
async function eventually(ask) {
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    await pause(100);
  }
}

/** The record that a daemon writes about itself; `undefined` until it is complete. */
function readRecord(directory = dataDir) {
  try {
    return JSON.parse(readFileSync(join(directory, 'daemon.json'), 'utf8'));
  } catch {
    return undefined;
  }
}

async function readStatus({ host, port }) {
  try {
    // Not as all others are asked, whom a proxy of the environment may be for.
    const asked = get({ host, port, path: '/status', agent: false, signal: AbortSignal.timeout(5000) });
    const [answer] = await once(asked, 'response');
    return await json(answer);
  } catch {
    return undefined;
  }
}

rmSync(dataDir, { recursive: true, force: true });

const devnet = await launch(
  'simulated access node',
  [
    'devnet',
    '--port',
    String(await freePort(3570)),
    '--history',
    options.blocks,
    '--block-interval-ms',
    '500',
  ],
  ['ignore', 'pipe', 'inherit'],
);
const address = await new Promise((resolve) => {
  let text = '';
  devnet.stdout.on('data', (chunk) => {
    text += chunk;
    const match = /grpc:\/\/(\S+:\d+)/.exec(text);
    if (match !== null) resolve(match[1]);
  });
});
say(
  `Simulated access node: grpc://${address}, ${options.blocks} blocks of history, a new block every 0.5 s.`,
);

/** Starts a daemon on the simulated network. */
async function launchDaemon(name, directory, flags, stdio) {
  await launch(
    name,
    [
      'start',
      ...['--network', 'devnet', '--access-node', address, '--data-dir', directory, ...flags],
      ...['--api-port', String(await freePort(7180)), '--api-grpc-port', String(await freePort(7181))],
      ...['--metrics-port', String(await freePort(7182))],
    ],
    stdio,
  );
  return eventually(() => readRecord(directory));
}

/** Two daemons on one database: the first shows its progress here, the second writes its log to a file. */
async function launchCluster() {
  const { OwnPostgres } = await import('./postgres.mjs');
  const port = (await freePort(5433)) || (await anyPort());
  // The server's user may have no access to a home directory.
  database = OwnPostgres.begin({ directory: mkdtempSync(join(tmpdir(), 'fci-quickstart-')), port });
  const { url } = await database;
  const store = ['--store', url];
  say(`PostgreSQL: ${url}, with the index of both daemons.`);
  say('The first daemon follows the tip; both fill in the history, from the newest block to the first:');
  say();
  const record = await launchDaemon(
    'first daemon',
    dataDir,
    [...store, '--backfill', 'everything'],
    'inherit',
  );
  const second = join(dataDir, 'second');
  mkdirSync(second, { recursive: true });
  const log = openSync(join(second, 'log.ndjson'), 'w');
  await launchDaemon('second daemon', second, [...store, '--log-format', 'json'], ['ignore', log, log]);
  return record;
}

async function launchOne() {
  say('The daemon indexes them, oldest first:');
  say();
  return launchDaemon('daemon', dataDir, ['--start-height', 'root'], 'inherit');
}

const record = await (options.cluster ? launchCluster() : launchOne());
const api = `http://${record.api.host}:${record.api.port}`;
const metrics = `http://${record.metrics.host}:${record.metrics.port}`;

const status = await eventually(async () => {
  const answer = await readStatus(record.api);
  const isCaughtUp = typeof answer?.head === 'number' && answer.head - answer.latestIndexed <= 5;
  // The root block is 0.
  return isCaughtUp && answer.firstIndexed === 0 ? answer : undefined;
});

/** A path as it is typed here. */
const typed = (path) => {
  const near = relative(process.cwd(), path);
  const short = near.startsWith('..') ? path : near;
  return /^[\w./-]+$/.test(short) ? short : `'${short}'`;
};
const command = `node ${typed(program)}`;
say();
say(
  `Caught up: heights ${status.firstIndexed} to ${status.latestIndexed} are complete, verified and on disk.`,
);
say();
say(`  page      ${api}/   (what it does, in a browser)`);
say(`  status    ${api}/status`);
say(`  blocks    ${api}/v1/blocks?height=sealed&expand=payload`);
say(`  gRPC      ${record.grpc.host}:${record.grpc.port}, for any Flow client (docs/grpc.md)`);
say(`  metrics   ${metrics}/metrics`);
say(`  health    ${metrics}/readyz`);
say(`  terminal  ${command} status --data-dir ${typed(dataDir)}`);
say(`            ${command} get block ${status.latestIndexed} --data-dir ${typed(dataDir)}`);
if (database !== undefined) {
  const { url } = await database;
  say(`            ${command} workers --network devnet --store ${url}`);
  say(`  SQL       psql ${url} -c 'SELECT * FROM flow.coverage'   (docs/postgresql.md)`);
}
say();

if (options.once) {
  await stop(0);
} else {
  say('Following the tip. Ctrl-C stops everything.');
  say();
}
