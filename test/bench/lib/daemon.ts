import { readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { memoryBytes, processorMs } from '../../support/processFiles.js';
import { Program, programPath } from '../../support/program.js';
import { listening, startArguments } from '../../support/runningDaemon.js';
import { freshDirectory, owned, scratch } from './processes.js';

export type Mode = 'edi-only' | 'requester-only' | 'hybrid';

export const modeFlags: Readonly<Record<Mode, readonly string[]>> = {
  'edi-only': ['--edi-only'],
  'requester-only': ['--no-edi'],
  hybrid: [],
};

export interface DaemonOptions {
  readonly node: string;
  readonly mode: Mode;
  readonly dataDir: string;
  readonly startHeight?: number;
  readonly stopHeight?: number;
  readonly flags?: readonly string[];
  readonly nodeFlags?: readonly string[];
}

const STORE_BEGINS = 'new store created';
const POLL_MS = 20;
const MEMORY_POLL_MS = 100;

/** Starts the real program beside the bench and resolves as soon as it listens. Build first: it runs `dist/main.js`. */
export async function startDaemon(options: DaemonOptions, env?: Record<string, string>) {
  const { node, mode, dataDir, startHeight = 1, stopHeight, flags = [], nodeFlags = [] } = options;
  const from = ['--start-height', String(startHeight)];
  const to = stopHeight === undefined ? [] : ['--stop-height', String(stopHeight)];
  const args = startArguments({ address: node }, dataDir, ...from, ...to, ...modeFlags[mode]);
  const program = new Program([...args, ...flags], env, { script: [...nodeFlags, programPath] });
  const { pid = 0 } = owned(program.child);
  const mainThreadMs = watchMainThread(program, pid);
  const daemon = await listening(program);
  const [apiPort, grpcPort] = [daemon.apiUrl, `http://${daemon.grpcAddress}`].map((url) => new URL(url).port);
  return {
    ...{ program, pid, apiPort: Number(apiPort), grpcPort: Number(grpcPort) },
    metrics: () => daemon.scrape(),
    /** Processor time of its main thread so far: as of a moment ago, also when it has ended. */
    mainThreadMs,
    reaches: async (height: number): Promise<void> => {
      while (((await daemon.status()).latestIndexed ?? -1) < height) await sleep(POLL_MS);
    },
    /** Resolves once it has ended, of itself or by SIGTERM; rejects when it did otherwise than with 0. */
    ends: async (by?: 'SIGTERM'): Promise<void> => {
      const code = await (by === undefined ? program.exited : program.stop(by));
      if (code !== 0) throw new Error(`the daemon ended with ${code}: ${program.stderr}`);
    },
  };
}

export interface Drained {
  /** From the log line that begins the store to the one that says that the stop height is reached, and all is durable. */
  readonly heightsPerSecond: number;
  /** How late the event loop was, at worst but for one time in a hundred. */
  readonly eventLoopDelayP99Ms: number;
  readonly peakAnonymousMiB: number;
}

/** Runs the real program from an empty store, in a directory of the run's own, to its stop height. */
export async function drain(
  options: Omit<DaemonOptions, 'dataDir'> & { readonly heights: number },
): Promise<Drained> {
  const { heights, nodeFlags = [] } = options;
  const dataDir = freshDirectory();
  const delayFile = join(scratch, 'delay');
  const probe = ['--import', resolve(import.meta.dirname, 'delayProbe.mjs')];
  const { program, pid, ends } = await startDaemon(
    { ...options, dataDir, stopHeight: heights, nodeFlags: [...probe, ...nodeFlags] },
    { BENCH_DELAY_FILE: delayFile },
  );
  const peakAnonymousMiB = watchMemory(pid, MEMORY_POLL_MS);
  await program.sees(new RegExp(`"msg":"${STORE_BEGINS}"`));
  program.child.kill('SIGUSR2');
  await ends();
  rmSync(dataDir, { recursive: true });
  const at = (message: string): number =>
    Date.parse(String(program.logs().find(({ msg }) => msg === message)?.['time']));
  return {
    heightsPerSecond: (heights * 1_000) / (at('stop height reached') - at(STORE_BEGINS)),
    eventLoopDelayP99Ms: Number(readFileSync(delayFile, 'utf8')),
    peakAnonymousMiB: peakAnonymousMiB(),
  };
}

/** The most memory that no file backs, in MiB, from now until the function that comes back is called. */
export function watchMemory(pid: number, everyMs: number): () => number {
  let peakMiB = 0;
  const look = (): void => {
    peakMiB = Math.max(peakMiB, (memoryBytes(pid, 'RssAnon') || 0) / 1024 ** 2);
  };
  const looking = setInterval(look, everyMs);
  return () => {
    clearInterval(looking);
    look();
    return peakMiB;
  };
}

/** Reads for as long as a process lives: nobody can be asked any more once it has ended. */
function watchMainThread({ exited }: Program, pid: number): () => number {
  let lastMs = Number.NaN;
  const look = (): number => {
    const nowMs = processorMs(pid, pid);
    if (!Number.isNaN(nowMs)) lastMs = nowMs;
    return lastMs;
  };
  const looking = setInterval(look, POLL_MS);
  void exited.then(() => clearInterval(looking));
  return look;
}
