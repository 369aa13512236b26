import { existsSync, openSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { StatusDocument } from '../../src/api/index.js';
import { readDaemonRecord } from '../../src/app/index.js';
import { unreadPipe, unreadSocket, type OtherEnd } from '../support/badOutputs.js';
import { devnetForTest, eventually, matching, programPath } from '../support/daemons.js';
import { RestNode, RunningDaemon, scratchDirectory, ServedChain, smallChain } from '../support/daemons.js';
import { startArguments, startProgram, together, type Program, type RunAs } from '../support/daemons.js';
import { smallFileSystem } from '../support/smallFileSystem.js';

const HEAD = 120;
/** Blocks after which a fault may strike, and blocks that must come after it. */
const SOME_BLOCKS = 20;
const chain = { startHead: HEAD, seed: 3, blockIntervalMs: 100 } as const;
/** They mostly wait; their starts are what costs. */
const AT_ONCE = 4;

type Given = OtherEnd['given'] | 'pipe';

interface Scene {
  readonly outputs: readonly [Given, Given];
  readonly wrapper?: string[];
  /** Once it indexes. */
  readonly strike?: (program: Program) => unknown;
  /** What `/status` says then. Absent: nothing is wrong. */
  readonly says?: RegExp;
  /** Lines are lost as soon as there are any. */
  readonly losesAtOnce?: boolean;
  /** Returns what gives everything that was written. */
  readonly heal?: (program: Program) => () => string;
  /** Where the program that was started does not tell it. */
  readonly exitCode?: () => Promise<number>;
}

const onOne = (end: OtherEnd) => ({
  outputs: [end.given, end.given] as const,
  heal: () => {
    end.read();
    return () => end.text();
  },
});

const LOST = 'log lines were lost';
const BUG = { NODE_OPTIONS: '--import=data:text/javascript,setTimeout(()=>{throw%20Error(1)},4000)' };

const NOBODY_READS = /^nobody reads it\. Look at/;

const scenes: Readonly<Record<string, () => Scene | Promise<Scene> | undefined>> = {
  'a pipe that is not read any more': () => {
    const pipe = unreadPipe({ isFull: false });
    pipe.read();
    return {
      ...onOne(pipe),
      strike: async () => {
        await eventually(() => pipe.text().includes('"msg":"listening"'));
        pipe.pause();
      },
      says: NOBODY_READS,
    };
  },
  'a pipe whose reader ends': () => {
    const pipe = unreadPipe({ isFull: false });
    const { outputs } = onOne(pipe);
    return { outputs, strike: () => pipe.end(), says: /^its reader has gone\./, losesAtOnce: true };
  },
  'a disk that is full, and then is not': () => {
    // Root alone may make one.
    const small = smallFileSystem(1);
    if (small === undefined) return undefined;
    const log = join(small.path, 'log');
    small.fill(48_576);
    const given = openSync(log, 'a');
    return {
      outputs: [given, given],
      says: /^the disk is full\./,
      losesAtOnce: true,
      heal: () => {
        rmSync(small.ballast);
        small.remount('size=64m');
        return () => readFileSync(log, 'utf8');
      },
    };
  },
  'closed descriptors': () => ({
    outputs: ['pipe', 'pipe'],
    wrapper: ['sh', '-c', 'exec "$@" >&- 2>&-', 'sh'],
  }),
  'a terminal that stands still': () => {
    // Its other end is read by a program that is stopped.
    const wrapper = ['bash', '-c', 'exec script -qec "${*@Q}" /dev/null', 'bash'];
    return {
      ...{ outputs: ['pipe', 'pipe'], wrapper, says: NOBODY_READS },
      strike: ({ child }) => child.kill('SIGSTOP'),
      heal: (program) => {
        program.child.kill('SIGCONT');
        return () => program.stdout;
      },
    };
  },
  'a terminal that is gone': () => {
    // Without being the session's, so that no SIGHUP comes.
    const code = join(scratchDirectory(), 'code');
    const command = `line="\${*@Q}; echo \\$? > ${code}"; exec script -qec "setsid -w sh -c \${line@Q}" /dev/null`;
    return {
      ...{ outputs: ['pipe', 'pipe'], wrapper: ['bash', '-c', command, 'bash'] },
      strike: ({ child }) => child.kill('SIGKILL'),
      ...{ says: /^its terminal is gone/, losesAtOnce: true },
      exitCode: () => eventually(() => (existsSync(code) ? Number(readFileSync(code, 'utf8')) : undefined)),
    };
  },
  'a socket that nobody reads': async () => ({ ...onOne(await unreadSocket()), says: NOBODY_READS }),
};

interface LogLine {
  readonly msg: string;
  readonly lines?: number;
}

/** The whole lines of a log, after whatever filled the pipe before. */
function linesOf(text: string): LogLine[] {
  const whole = text.slice(0, text.lastIndexOf('\n'));
  return whole
    .split(/\r?\n/)
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as LogLine);
}

const logOf = async (daemon: RunningDaemon): Promise<StatusDocument['log']> => (await daemon.status()).log;

/** The daemon as its data directory tells of it, whatever becomes of its log. */
async function foundIn(dataDir: string, program: Program): Promise<{ daemon: RunningDaemon; pid: number }> {
  const { api, metrics, pid } = await eventually(() => readDaemonRecord(dataDir));
  return { daemon: new RunningDaemon(program, { api: api?.port ?? 0, metrics: metrics.port }), pid };
}

async function plays(make: (typeof scenes)[string]): Promise<void> {
  const scene = await make();
  if (scene === undefined) return;
  const { exitCode, heal, losesAtOnce, outputs, says, strike, wrapper = [] } = scene;
  const devnet = await devnetForTest(chain);
  const dataDir = scratchDirectory();
  const args = startArguments(devnet, dataDir, '--start-height', '0', '--log-level', 'debug');
  const program = startProgram(args, {}, { outputs, wrapper });
  const { daemon, pid } = await foundIn(dataDir, program);
  await strike?.(program);
  await daemon.reaches(HEAD + SOME_BLOCKS);
  await daemon.ready();
  expect((await daemon.health('/livez')).status).toBe(200);

  if (says === undefined) expect(await logOf(daemon)).toEqual([]);
  else {
    const [trouble] = await eventually(async () => {
      const log = await logOf(daemon);
      return log.length > 0 ? log : undefined;
    });
    expect(trouble).toMatchObject({ output: 'standard output', reason: matching(says) });
  }
  if (losesAtOnce === true) {
    const lost = await daemon.scrapeUntil((metrics) => metrics.value('log_lines_lost_total') > 0);
    expect((await logOf(daemon))[0]?.lostLines).toBeGreaterThanOrEqual(lost.value('log_lines_lost_total'));
  }
  const read = heal?.(program);
  if (read !== undefined) await expectWhole(daemon, read);
  process.kill(pid, 'SIGTERM');
  expect(await (exitCode?.() ?? program.exited)).toBe(0);
  if (read !== undefined) await eventually(() => linesOf(read()).at(-1)?.msg === 'stopped');
}

it('a daemon goes on, answers and stops whatever its outputs do', () =>
  together(
    Object.fromEntries(Object.entries(scenes).map(([name, make]) => [name, () => plays(make)])),
    AT_ONCE,
  ));

/** The log goes on, and says as many lost lines as are counted. */
async function expectWhole(daemon: RunningDaemon, read: () => string): Promise<void> {
  await eventually(async () => (await logOf(daemon)).length === 0);
  const before = linesOf(read()).length;
  await eventually(() => linesOf(read()).length > before);
  const lost = (await daemon.scrape()).value('log_lines_lost_total');
  const said = linesOf(read()).filter(({ msg }) => msg === LOST);
  expect(said.reduce((sum, { lines = 0 }) => sum + lines, 0)).toBe(lost);
}

const both = (): RunAs => {
  const { given } = unreadPipe({ isFull: true });
  return { outputs: [given, given] };
};

it('outputs that take nothing do not hold up what Node.js itself prints', async () => {
  const devnet = await devnetForTest(chain);
  const dataDir = scratchDirectory();
  const program = startProgram(startArguments(devnet, dataDir, '--start-height', '0'), {}, both());
  const { daemon } = await foundIn(dataDir, program);
  // Node.js says where its debugger listens, or why it does not.
  program.child.kill('SIGUSR1');
  await daemon.reaches(HEAD);
  expect((await daemon.health('/livez')).status).toBe(200);
  expect(await program.stop()).toBe(0);
});

const nobody = { address: '127.0.0.1:1' };
const ends: readonly [string, number, () => string[], Record<string, string>?][] = [
  ['a bug', 1, () => startArguments(nobody, scratchDirectory()), BUG],
  // Not a directory.
  ['a refusal', 74, () => startArguments(nobody, programPath)],
  ['a wrong flag', 64, () => startArguments(nobody, scratchDirectory(), '--nonsense')],
  ['a command that finds no daemon', 69, () => ['status', '--api-port', '1']],
];
it('outputs that take nothing do not hold up the end', () =>
  together(
    Object.fromEntries(
      ends.map(([name, code, args, environment = {}]) => [
        `by ${name}`,
        async () => expect(await startProgram(args(), environment, both()).exited).toBe(code),
      ]),
    ),
  ));

const FULL = 'Cannot write to standard output: the disk is full. Free some space.\n';
const onFullDisk = (): RunAs => ({ outputs: [openSync('/dev/full', 'w'), 'pipe'] });

it.each([
  ['status --watch --json', both, 1, 0, ''],
  // It asks for the next page while it writes the first.
  ['export --follow', both, 2, 'SIGINT', ''],
  ['export --follow', onFullDisk, 2, 74, FULL],
])('a command whose result nobody takes is ended by a signal, or says why: %s', async (...row) => {
  const [command, outputs, requests, outcome, said] = row;
  const chain = await ServedChain.start(smallChain(100, [[], []]), { sealed: 101 });
  const proxy = await RestNode.start((request, response) => {
    if (proxy.seen.length > requests) return;
    void fetch(chain.url + (request.url ?? '')).then(async (answer) => response.end(await answer.text()));
  });
  const program = startProgram([...command.split(' '), '--api-port', String(proxy.port)], {}, outputs());
  await eventually(() => proxy.seen.length >= requests);
  expect(await (said === '' ? program.stop('SIGINT') : program.exited)).toBe(outcome);
  expect(program.stderr).toBe(said);
});

it.each(['version', 'config docs', 'config print'])(
  'a command says in a sentence that the disk is full, and ends quietly when its reader has gone: %s',
  async (command) => {
    // A file takes its time to refuse. Root alone may make such a disk.
    const small = smallFileSystem(1);
    small?.fill();
    for (const path of ['/dev/full', ...(small === undefined ? [] : [join(small.path, 'result')])]) {
      const full = startProgram(command.split(' '), {}, { outputs: [openSync(path, 'w'), 'pipe'] });
      expect(await full.exited).toBe(74);
      expect(full.stderr).toBe(FULL);
    }

    const pipe = unreadPipe({ isFull: false });
    pipe.end();
    const unread = startProgram(command.split(' '), {}, { outputs: [pipe.given, 'pipe'] });
    expect(await unread.exited).toBe(0);
    expect(unread.stderr).toBe('');
  },
);

it('a command has its exit code although something holds the process, which it says, and although nobody can read why', async () => {
  const log = join(scratchDirectory(), 'log');
  const held = { NODE_OPTIONS: '--import=data:text/javascript,setInterval(()=>{},1e9)' };
  // Writes of a file take their time.
  const program = startProgram(['version'], held, { outputs: ['pipe', openSync(log, 'a')] });
  expect(await program.exited).toBe(0);
  expect(readFileSync(log, 'utf8')).toMatch(/^Ended although these were still open: .*Timeout.*\.\n$/);
  const pipe = unreadPipe({ isFull: false });
  pipe.end();
  const outputs = [pipe.given, pipe.given] as const;
  expect(await startProgram(['nonsense'], {}, { outputs }).exited).toBe(64);
  expect(await startProgram(['status', '--api-port', '1'], {}, { outputs }).exited).toBe(69);
});
