import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runProgram, scratchDirectory } from '../support/program.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import { TestSecrets } from '../support/secretFiles.js';

async function indexed(environment: Readonly<Record<string, string>>, wrapper: readonly string[] = []) {
  const devnet = await devnetForTest({ seed: 7, startHead: 12, sealedLag: 0, paused: true, hashedIds: true });
  const dataDir = join(scratchDirectory(), 'data');
  const args = startArguments(devnet, dataDir, '--start-height', '3', '--stop-height', '8');
  const ended = await runProgram(args, environment, { wrapper });
  const lines = ended.stdout.trimEnd().split('\n');
  const logs = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  // Which versions of Node.js have a bug is no matter of these surroundings.
  return { ...ended, dataDir, logs: logs.filter(({ node }) => node !== process.version) };
}

/** Runs a program as the only worker of a cluster, and ends with its exit code. */
const CLUSTER = `
  const [, , exec, ...args] = process.argv;
  cluster.setupPrimary({ exec, args, execArgv: [] });
  cluster.fork().on('exit', (code) => process.exit(code ?? 99));`;

/** Replaces parts of a module of Node.js, before the program loads it. */
function patched(name: string, body: string): string {
  const imports = `import { createRequire, syncBuiltinESMExports } from 'node:module';`;
  return `${imports} const builtin = createRequire('/')('node:${name}'); ${body} syncBuiltinESMExports();`;
}

/** Ends a reader thread once there is a file, and lets none start while there is another. */
const threadsEnd = (ending: string, crowded: string) => `
  import { existsSync, rmSync } from 'node:fs';
  ${patched(
    'worker_threads',
    `const { isMainThread, Worker } = builtin;
    builtin.Worker = class extends Worker {
      constructor(...given) {
        if (existsSync('${crowded}')) throw Object.assign(new Error('EAGAIN'), { code: 'ERR_WORKER_INIT_FAILED' });
        super(...given);
      }
    };`,
  )}
  const look = () => {
    if (!existsSync('${ending}')) return;
    rmSync('${ending}');
    throw new Error('ended');
  };
  if (!isMainThread) setInterval(look, 20).unref();`;

/** Has Node.js alone say how many files may be open: too few where it would ask the DNS for the names of connections. */
const NO_PROC = patched(
  'fs',
  `const { readFileSync } = builtin;
  builtin.readFileSync = (path, ...how) => readFileSync(path === '/proc/self/limits' ? '/no' : path, ...how);
  process.report.getReport = () => ({ userLimits: { open_files: { soft: process.report.excludeNetwork ? 9_999 : 1 } } });`,
);

describe('a daemon works and writes nothing else than its log in surroundings', () => {
  const nowhere = '/dev/null/nowhere';
  it('of an unknown time zone, of other programs, that want colours, have no places for files of its user and are of a cluster', async () => {
    const environment = {
      ...{ TZ: 'Nowhere/Land', LANG: 'C', LC_ALL: 'C' },
      ...{ NODE_ENV: 'production', npm_config_loglevel: 'silly', npm_package_config_window: '1' },
      ...{ LISTEN_FDS: '1', LISTEN_PID: '1', WATCHDOG_USEC: 'soon', WATCHDOG_PID: '1' },
      ...{ FORCE_COLOR: '3', CI: 'true', CLICOLOR_FORCE: '1', TERM: '' },
      ...{ FCI_STORE: '', FCI_WINDOW: ' ', FCI_PEERS: '""', FCI_START_HEIGHT: '\n' },
      ...{ HOME: nowhere, TMPDIR: nowhere, NODE_UNIQUE_ID: '1' },
    };
    const { code, stderr, logs } = await indexed(environment);
    expect([code, stderr]).toEqual([0, '']);
    expect(logs.at(-1)).toMatchObject({ msg: 'stopped' });
    expect(logs.filter(({ level }) => level !== 'info' && level !== 'debug')).toEqual([]);
    for (const { time } of logs) expect(time).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/);
  });

  it.each([
    ['no WebAssembly', ['sh', '-c', 'node=$1; shift; exec "$node" --jitless "$@"', 'sh']],
    ['few addresses', ['sh', '-c', 'ulimit -v 6000000; exec "$@"', 'sh']],
    ['no /proc', ['env', `NODE_OPTIONS=--import=data:text/javascript,${encodeURIComponent(NO_PROC)}`]],
  ])('of %s, which is used where it is there', async (_, wrapper) => {
    const { code, logs } = await indexed({}, wrapper);
    expect(code).toBe(0);
    expect(logs.filter(({ level }) => level !== 'info' && level !== 'debug')).toEqual([]);
  });

  it('of a cluster of Node.js of which it is a worker, without HOME, under a umask that takes every right from everybody', async () => {
    const bare = ['sh', '-c', 'umask 777; exec env -u HOME "$@"', 'sh'];
    const { code, stderr, logs, dataDir } = await indexed({}, [...bare, 'node', '-e', CLUSTER, '--']);
    expect([code, stderr]).toEqual([0, '']);
    expect(logs.at(-1)).toMatchObject({ msg: 'stopped' });
    for (const path of [dataDir, join(dataDir, 'index')]) expect(statSync(path).mode & 0o777).toBe(0o700);
  });

  it('where no thread can take the place of one that ended, until one can', async () => {
    const devnet = await devnetForTest({ seed: 7, startHead: 12, sealedLag: 0, paused: true });
    const directory = scratchDirectory();
    const [ending, crowded] = [join(directory, 'ending'), join(directory, 'crowded')];
    const preload = join(directory, 'preload.mjs');
    writeFileSync(preload, threadsEnd(ending, crowded));
    const args = startArguments(devnet, join(directory, 'data'), '--start-height', '3');
    const daemon = await startDaemon(args, { NODE_OPTIONS: `--import=${preload}` });
    await daemon.ready();
    for (const path of [crowded, ending]) writeFileSync(path, '');
    expect(await daemon.reason(/No more threads/)).toMatchObject({ code: 'reader_down' });
    rmSync(crowded);
    await daemon.ready();
    expect(await daemon.program.stop()).toBe(0);
  });

  it('where its record cannot be written, of which it warns once, its configuration came through a pipe that cannot be read again at SIGHUP, and none of its files can be removed', async () => {
    const devnet = await devnetForTest({ seed: 7, startHead: 12, sealedLag: 0, paused: true });
    const dataDir = scratchDirectory();
    const inTheWay = [join(dataDir, 'daemon.json.new'), join(dataDir, 'control.sock')];
    for (const path of inTheWay) mkdirSync(join(path, 'full'), { recursive: true });
    const wrapper = ['bash', '-c', 'exec "$@" --config <(echo {})', 'bash'];
    const daemon = await startDaemon(startArguments(devnet, dataDir, '--start-height', '3'), {}, { wrapper });
    await daemon.reaches(12);
    expect(daemon.program.stdout.match(/its record cannot be written/g)).toHaveLength(1);
    daemon.program.child.kill('SIGHUP');
    await daemon.program.sees(/there is no configuration file to reload/);
    expect((await daemon.health('/livez')).status).toBe(200);
    mkdirSync(join(dataDir, 'daemon.json', 'full'), { recursive: true });
    expect(await daemon.program.stop()).toBe(0);
  });
});

it('a mount that hangs with configuration and secrets holds up the reload alone, which is told', async () => {
  const { certificateFile, keyFile } = new TestSecrets('');
  const directory = dirname(keyFile);
  const file = join(directory, 'config.json');
  writeFileSync(file, JSON.stringify({ api: { tls: { certificateFile, keyFile } } }));
  const freeze = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)';
  const hanging = patched(
    'fs',
    `const { existsSync, openSync, promises, promises: { stat } } = builtin;
    const hangs = (path) => String(path).startsWith('${directory}/') && existsSync('${file}.stale');
    // Each holds a thread of the pool, of which the store needs one of four.
    let held = 0;
    const hang = () => new Promise(() => (held += 1) > 2 && process.exit(9));
    builtin.openSync = (path, ...how) => (hangs(path) ? ${freeze} : openSync(path, ...how));
    promises.stat = (path, ...how) => (hangs(path) ? hang() : stat(path, ...how));`,
  );
  const args = startArguments({ address: '127.0.0.1:1' }, scratchDirectory(), '--config', file);
  const preload = `--import=data:text/javascript,${encodeURIComponent(hanging)}`;
  const daemon = await startDaemon(args, { NODE_OPTIONS: preload });
  writeFileSync(`${file}.stale`, '');
  daemon.program.child.kill('SIGHUP');
  await daemon.program.sees(/the configuration file does not answer/);
  await daemon.program.sees(/the files of a secret do not answer/);
  expect((await daemon.health('/livez')).status).toBe(200);
  expect(await daemon.program.stop()).toBe(0);
});

describe('surroundings that cannot do are named', () => {
  /** A name that nothing has: what the shell below makes there, it removes again. */
  const scratch = `/tmp/fci-surroundings-${process.pid}`;
  const gone = join(scratch, 'gone');

  it.each([
    ['start', `cd ${gone}; rm -r ${scratch}`],
    ['config check', `cd ${gone}; rm -r ${scratch}`],
    ['start', `cd ${gone}; mkdir donn$(printf '\\351')es; cd donn*; trap "rm -r ${scratch}" 0`],
  ])('a current directory that is gone, or whose name is not UTF-8: %s after %s', async (command, shell) => {
    mkdirSync(gone, { recursive: true });
    const wrapper = ['sh', '-c', `${shell}; "$@"`, 'sh'];
    const { code, stdout, stderr } = await runProgram(command.split(' '), {}, { wrapper });
    expect([code, stdout]).toEqual([74, '']);
    expect(stderr).toMatch(
      /^The current directory is gone, or its path is not UTF-8 \(.*Change to another one.*\n$/,
    );
  });

  it('a file of authorities that cannot be read', async () => {
    const tls = () => startArguments({ address: 'grpcs://localhost:1' }, scratchDirectory());
    const files = ['/dev/null/roots.pem', scratchDirectory()];
    const ended = files.map((file) => runProgram(tls(), { GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: file }));
    for (const { code, stderr } of await Promise.all(ended)) {
      expect(code).toBe(78);
      expect(stderr).toMatch(
        /^The file that GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names cannot be read \(E(?:NOTDIR|ISDIR)/,
      );
    }
  });

  const options = (...flags: string[]) => ({ NODE_OPTIONS: flags.join(' ') });
  const preload = (source: string) => options(`--import=data:text/javascript,${encodeURIComponent(source)}`);
  const older = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '18.20.8' } })`;
  // What a package meets under --frozen-intrinsics in some versions.
  const frozen = `Cannot assign to read only property 'a' of function 'function Error() { [native code] }'`;
  // Root has no such limit.
  const refusing = (code: string, message = 'EAGAIN') => {
    const error = `Object.assign(new Error(${JSON.stringify(message)}), { code: '${code}', resource: '/a' })`;
    return patched('worker_threads', `builtin.Worker = class { constructor() { throw ${error}; } };`);
  };
  const lacking = (name: string) => `
    import { Module } from 'node:module';
    const resolve = Module._resolveFilename;
    Module._resolveFilename = (name, ...rest) => resolve(name === '${name}' ? 'no-such-package' : name, ...rest);`;

  it.each([
    [
      'too old',
      preload(older),
      /^Node\.js 18\.20\.8 is too old: install Node\.js 24, or at least 20\.19\.\n$/,
    ],
    [
      'code made at run time forbidden',
      options('--disallow-code-generation-from-strings'),
      /^Node\.js forbids code/m,
    ],
    ['objects that cannot change', preload(refusing('', frozen)), /start it without --frozen-intrinsics/],
    ['denied', preload(refusing('ERR_ACCESS_DENIED')), /^The permissions of Node\.js.* \/a.*--permission/m],
    ['no native parts', options('--no-addons'), /^A package or its native part is missing.*npm ci/],
    [
      'no more threads',
      preload(refusing('ERR_WORKER_INIT_FAILED')),
      /^No more threads may be started \(EAGAIN\).*ulimit -u/m,
    ],
    ['a package is missing', preload(lacking('fastify')), /^A package or .*no-such-package.*npm ci/],
    ['a package of all commands', preload(lacking('commander')), /^A package or .*no-such-package/],
  ])('a Node.js or an installation that lacks something: %s', async (what, environment, said) => {
    const args = startArguments({ address: '127.0.0.1:1' }, scratchDirectory());
    const { code, stderr } = await runProgram(args, environment);
    // Others may leave some.
    const expected = what === 'no more threads' ? 75 : 78;
    expect({ code, stderr }).toEqual({ code: expected, stderr: expect.stringMatching(said) as string });
    expect(stderr).not.toMatch(/fault of the program|\n {4}at /);
  });
});
