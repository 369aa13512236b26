import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { DevnetHandle } from '../../src/devnet/index.js';
import { atEnd, runProgram, scratchDirectory, startProgram, storeFlags } from '../support/index.js';
import { storePath, type RunAs } from '../support/index.js';
import { proveStore } from '../support/provenStore.js';
import { devnetForTest, startArguments, startDaemon, type RunningDaemon } from '../support/runningDaemon.js';
import { smallFileSystem } from '../support/smallFileSystem.js';
import { throughPort } from './failingPort.js';
import { expectRefusal } from './mending.js';
import { openedAt } from './stage.js';
import type { Result, Scenarios } from './scenario.js';

const BEFORE = 20;
/** More than the write buffer holds: the database is at its next log, and its next table, long before. */
const BEYOND = 700;

/** Until the disk itself refuses. */
const NO_PAUSE = ['--disk-min-free-bytes', '0'];

const startNode = (): Promise<DevnetHandle> =>
  devnetForTest({ seed: 42, profile: 'dense', startHead: BEFORE, paused: true, sealedLag: 0 });

type Fault = (dataDir: string, daemon: RunningDaemon) => Ended | Promise<Ended>;
type Ended = () => void;
interface How {
  readonly dataDir?: string;
  readonly as?: RunAs | undefined;
}

/** A daemon at work, which is struck by a fault before it can go on. */
async function struck(fault: Fault, { dataDir = scratchDirectory(), as }: How) {
  const devnet = await startNode();
  const args = startArguments(devnet, dataDir, '--start-height', '0', ...NO_PAUSE);
  const daemon = await startDaemon(args, {}, as);
  await daemon.reaches(BEFORE);
  const end = await fault(dataDir, daemon);
  devnet.node.head.set(BEYOND);
  return { args, daemon, dataDir, devnet, end };
}

/** A daemon stops by itself, and once the fault is over a start is all it takes. */
async function whileItRuns(says: RegExp, fault: Fault, how: How = {}): Promise<Result> {
  const { args, daemon, dataDir, devnet, end } = await struck(fault, how);
  const exitCode = await daemon.program.exited;
  expect(exitCode, daemon.program.stderr).toBe(74);
  expectRefusal(daemon.program.stderr, says);
  const told = daemon.program.logs().find(({ msg }) => msg === 'stopped');
  expect(told, 'a failed daemon does not say that it stopped as asked').toBeUndefined();
  end();
  return goesOn(args, dataDir, devnet, exitCode);
}

async function goesOn(
  args: readonly string[],
  dataDir: string,
  { chain }: DevnetHandle,
  exitCode: number | string,
): Promise<Result> {
  const again = startProgram([...args, '--stop-height', String(BEYOND)]);
  expect(await again.exited, again.stderr).toBe(0);
  const wentOnFrom = openedAt(again);
  expect(wentOnFrom).toBeGreaterThanOrEqual(BEFORE);
  await proveStore(dataDir, { firstHeight: 0, latestHeight: BEYOND, chainAt: () => chain });
  return { outcome: 'stopped, went on', exitCode, wentOnFrom };
}

/** A fault that is there when the daemon, and every command that opens the store, starts. */
async function atStart(says: RegExp, dataDir: string, begin: () => () => void, as?: RunAs): Promise<Result> {
  const devnet = await startNode();
  const args = startArguments(devnet, dataDir, '--start-height', '0', ...NO_PAUSE);
  expect(await runProgram([...args, '--stop-height', String(BEFORE)])).toMatchObject({ code: 0 });
  const end = begin();
  const commands = [
    args,
    startArguments(devnet, join(dataDir, 'a', 'new', 'one'), ...NO_PAUSE),
    ['verify', ...storeFlags(dataDir)],
    ['rewind', ...storeFlags(dataDir), '--to', '5', '--yes'],
  ];
  for (const command of commands) {
    const { code, stderr } = await runProgram(command, {}, as);
    expect(code, `${command[0] ?? ''}: ${stderr}`).toBe(74);
    expectRefusal(stderr, says);
  }
  end();
  devnet.node.head.set(BEYOND);
  return goesOn(args, dataDir, devnet, 74);
}

/** The first words of what to do; for a command that only reads, a copy will do as well. */
const FULL = /The disk is full\. Free some space|the disk is full\. Copy it first/;
const READ_ONLY = /mounted read-only\. (?:Remount it writable|Copy it first)/;
const FORBIDDEN =
  /This user may not write there\. Give the directory|this user may not write there\. Copy it first/;

/** File numbers ahead of the database's own: its next files are among them. */
const TRAPS = 60;

/** Whatever file the database makes next is on a device without room. */
const fullDevice: Fault = (dataDir) => {
  const store = storePath(dataDir);
  const numbers = readdirSync(store).map((name) => Number.parseInt(name, 10) || 0);
  const next = Math.max(...numbers) + 1;
  const traps = Array.from({ length: TRAPS }, (_, index) => String(next + index).padStart(6, '0'));
  const paths = traps.flatMap((name) => [join(store, `${name}.log`), join(store, `${name}.ldb`)]);
  for (const path of paths) symlinkSync('/dev/full', path);
  return () => {
    for (const path of paths) rmSync(path, { force: true });
  };
};

/** Makes even root ask for permission, as everybody else must; undefined where that cannot be done. */
function asAnybody(): RunAs | undefined {
  if (process.getuid?.() !== 0) return {};
  const flags = ['--bounding-set', '-all', '--inh-caps', '-all'];
  const isPossible = spawnSync('setpriv', [...flags, 'true']).status === 0;
  return isPossible ? { wrapper: ['setpriv', ...flags] } : undefined;
}

function forbid(path: string): () => void {
  chmodSync(path, 0o500);
  return () => chmodSync(path, 0o700);
}

/** Open files: few more than the daemon needs for itself. */
const FEW_FILES = 160;
const fewFiles = { wrapper: ['bash', '-c', `ulimit -n ${FEW_FILES}; exec "$@"`, 'bash'] };

/** Somebody moves the store away, though nothing is written to a new file yet. */
const movedAway: Fault = (dataDir) => {
  renameSync(storePath(dataDir), `${storePath(dataDir)}.moved`);
  return () => renameSync(`${storePath(dataDir)}.moved`, storePath(dataDir));
};

/** The process may write no file beyond this: less than its log has when it is full. */
const noLargeFile: Fault = (_, { program }) => {
  const { pid } = program.child;
  expect(spawnSync('prlimit', ['--pid', String(pid), `--fsize=${1024 ** 2}:`]).status).toBe(0);
  return () => undefined;
};

/** Readers that connect and say nothing, more than files may be open. */
const manyReaders: Fault = async (_, daemon) => {
  const sockets: Socket[] = [];
  const ports = [daemon.apiUrl, daemon.metricsUrl].map((url) => Number(new URL(url).port));
  for (let index = 0; index < 2 * FEW_FILES; index += 1) {
    const socket = connect(ports[index % 2] ?? 0, '127.0.0.1');
    socket.on('error', () => undefined);
    sockets.push(socket);
    await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
  }
  const end = (): void => sockets.forEach((socket) => socket.destroy());
  atEnd(end);
  return end;
};

/** Readers do not take the files that the store needs: nothing stops, and nothing is to be done. */
async function whileReadersStay(): Promise<Result> {
  const { daemon, dataDir, devnet, end } = await struck(manyReaders, { as: fewFiles });
  await daemon.reaches(BEYOND);
  end();
  const exitCode = await daemon.program.stop('SIGTERM');
  await proveStore(dataDir, { firstHeight: 0, latestHeight: BEYOND, chainAt: () => devnet.chain });
  return { outcome: 'unharmed', exitCode, wentOnFrom: BEFORE };
}

/** Faults of the disk below a store whose files are sound. Where a fault cannot be brought about, the port has it. */
export const faultScenarios: Scenarios = {
  'disk full at work: a full device': () => whileItRuns(FULL, fullDevice),
  'disk full at work: a small file system': () => {
    const small = smallFileSystem(12);
    if (small === undefined) return throughPort('No space left on device', FULL);
    const fault: Fault = () => () => small.remount('size=200m');
    return whileItRuns(FULL, fault, { dataDir: join(small.path, 'data') });
  },
  'disk full at the start': () => {
    const small = smallFileSystem(20);
    if (small === undefined) return throughPort('No space left on device', FULL);
    return atStart(FULL, join(small.path, 'data'), () => {
      small.fill();
      return () => {
        rmSync(small.ballast);
        small.remount('size=200m');
      };
    });
  },
  'read-only at the start': () => {
    const small = smallFileSystem(200);
    if (small === undefined) return throughPort('Read-only file system', READ_ONLY);
    return atStart(READ_ONLY, join(small.path, 'data'), () => {
      small.remount('ro');
      return () => small.remount('rw');
    });
  },
  // A file system with files open for writing is not made read-only by a command; by a failing disk it is.
  'read-only at work': () => throughPort('Read-only file system', READ_ONLY),
  'permission denied at work': () => {
    const as = asAnybody();
    if (as === undefined) return throughPort('Permission denied', FORBIDDEN);
    return whileItRuns(FORBIDDEN, (dataDir) => forbid(storePath(dataDir)), { as });
  },
  'permission denied at the start': () => {
    const as = asAnybody();
    if (as === undefined) return throughPort('Permission denied', FORBIDDEN);
    const dataDir = join(scratchDirectory(), 'data');
    mkdirSync(dataDir);
    const forbidden = () => {
      const ends = [forbid(storePath(dataDir)), forbid(dataDir)];
      return () => ends.forEach((end) => end());
    };
    return atStart(FORBIDDEN, dataDir, forbidden, as);
  },
  'the directory moved away at work': () => whileItRuns(/no longer at .* Put it back/, movedAway),
  'a limit of file sizes at work': () =>
    whileItRuns(/File too large.* Raise the limit of file sizes/, noLargeFile),
  'too many open files at work': () => whileReadersStay(),
};
