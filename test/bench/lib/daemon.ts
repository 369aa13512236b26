import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { memoryBytes, processorMs } from '../../support/processFiles.js';
import { eachLine, freshDirectory, ROOT, scratch, startProcess } from './processes.js';

export type Mode = 'edi-only' | 'requester-only' | 'hybrid';

export const modeFlags: Readonly<Record<Mode, readonly string[]>> = {
  'edi-only': ['--edi-only'],
  'requester-only': ['--no-edi'],
  hybrid: [],
};

export interface DaemonOptions {
  /** `host:port`. */
  readonly node: string;
  readonly mode: Mode;
  readonly dataDir: string;
  readonly startHeight?: number;
  readonly stopHeight?: number;
  /** Further flags of `start`. */
  readonly flags?: readonly string[];
  /** Flags of the Node.js that runs it. */
  readonly nodeFlags?: readonly string[];
}

/** A daemon that runs beside the bench, to be asked and stopped. */
export interface Daemon {
  readonly process: ChildProcess;
  /** Ports on 127.0.0.1. */
  readonly apiPort: number;
  readonly metricsPort: number;
  readonly grpcPort: number;
  /** Resolves with the exit code, `null` for a signal. */
  readonly exited: Promise<number | null>;
  /** When each message was logged first. */
  readonly loggedAtMs: ReadonlyMap<string, number>;
  /** The text of /metrics. */
  metrics(): Promise<string>;
  /** Processor time of its main thread so far, in milliseconds: as of a moment ago, also when it has ended. */
  mainThreadMs(): number;
  /** Resolves once this height is indexed. */
  reaches(height: number): Promise<void>;
  /** SIGTERM; resolves with the milliseconds until it had ended. Rejects when it ended otherwise than with 0. */
  stop(): Promise<number>;
}

type Port = { readonly port: number } | undefined;
type LogLine = { readonly msg: string } & Readonly<Record<'api' | 'metrics' | 'grpc', Port>>;

const STORE_BEGINS = 'new store created';
const POLL_MS = 20;
const MEMORY_POLL_MS = 100;
const MAIN = resolve(ROOT, 'dist/main.js');

/** Starts the real program and resolves as soon as it listens. Build first: it runs `dist/main.js`. */
export async function startDaemon(options: DaemonOptions, env?: Record<string, string>): Promise<Daemon> {
  const { node, mode, dataDir, startHeight = 1, stopHeight } = options;
  const child = startProcess(
    [
      ...(options.nodeFlags ?? []),
      ...[MAIN, 'start', '--network', 'devnet', '--access-node', node, '--data-dir', dataDir],
      ...['--start-height', String(startHeight)],
      ...(stopHeight === undefined ? [] : ['--stop-height', String(stopHeight)]),
      ...['--api-port', '0', '--api-grpc-port', '0', '--metrics-port', '0', '--log-format', 'json'],
      ...modeFlags[mode],
      ...(options.flags ?? []),
    ],
    env,
  );
  const exited = once(child, 'exit').then(([code]) => code as number | null);
  const mainThreadMs = watchMainThread(child);
  const loggedAtMs = new Map<string, number>();
  const ports = await new Promise<LogLine>((onPorts, onFailure) => {
    void exited.then((code) => onFailure(new Error(`the daemon ended with ${String(code)}`)));
    void eachLine(child, (line) => {
      const log = JSON.parse(line) as LogLine;
      if (!loggedAtMs.has(log.msg)) loggedAtMs.set(log.msg, performance.now());
      if (log.msg === STORE_BEGINS) child.send('begin');
      if (log.msg === 'listening') onPorts(log);
    });
  });
  const [apiPort = 0, metricsPort = 0, grpcPort = 0] = [ports.api, ports.metrics, ports.grpc].map(
    (each) => each?.port,
  );
  const text = async (port: number, path: string): Promise<string> =>
    (await fetch(`http://127.0.0.1:${port}${path}`)).text();
  const latestIndexed = async (): Promise<number> =>
    (JSON.parse(await text(apiPort, '/status')) as { latestIndexed: number | null }).latestIndexed ?? -1;
  return {
    ...{ process: child, apiPort, metricsPort, grpcPort, exited, loggedAtMs, mainThreadMs },
    metrics: () => text(metricsPort, '/metrics'),
    reaches: async (height) => {
      while ((await latestIndexed()) < height) await sleep(POLL_MS);
    },
    stop: async () => {
      const startedAtMs = performance.now();
      child.kill('SIGTERM');
      const code = await exited;
      if (code !== 0) throw new Error(`the daemon ended with ${String(code)}`);
      return performance.now() - startedAtMs;
    },
  };
}

/** A daemon that has caught up with heights 1 … `heights`. */
export interface Drained {
  /** From the log line that begins the store to the one that says that the stop height is reached, and all is durable. */
  readonly heightsPerSecond: number;
  /** How late the event loop was, at worst but for one time in a hundred. */
  readonly eventLoopDelayP99Ms: number;
  /** Memory that no file backs. */
  readonly peakAnonymousMiB: number;
}

/** Runs the real program from an empty store, in a directory of the run's own, to its stop height. */
export async function drain(
  options: Omit<DaemonOptions, 'dataDir'> & { readonly heights: number },
): Promise<Drained> {
  const { heights, nodeFlags = [] } = options;
  const dataDir = freshDirectory();
  const delayFile = join(scratch, 'delay');
  const daemon = await startDaemon(
    {
      ...{ ...options, dataDir, stopHeight: heights },
      nodeFlags: ['--import', resolve(import.meta.dirname, 'delayProbe.mjs'), ...nodeFlags],
    },
    { BENCH_DELAY_FILE: delayFile },
  );
  let peakAnonymousMiB = 0;
  const memory = setInterval(() => {
    peakAnonymousMiB = Math.max(peakAnonymousMiB, anonymousMiB(daemon.process.pid));
  }, MEMORY_POLL_MS);
  const code = await daemon.exited;
  clearInterval(memory);
  if (code !== 0) throw new Error(`the daemon ended with ${String(code)}`);
  rmSync(dataDir, { recursive: true });
  const at = (message: string): number => daemon.loggedAtMs.get(message) ?? Number.NaN;
  return {
    heightsPerSecond: (heights * 1_000) / (at('stop height reached') - at(STORE_BEGINS)),
    eventLoopDelayP99Ms: Number(readFileSync(delayFile, 'utf8')),
    peakAnonymousMiB,
  };
}

/** Memory of a process that no file backs, in MiB; 0 where the system does not tell, or for a process that has ended. */
export function anonymousMiB(pid: number | 'self' = 0): number {
  return (memoryBytes(pid, 'RssAnon') || 0) / 1024 ** 2;
}

/** Reads for as long as a process lives: nobody can be asked any more once it has ended. */
function watchMainThread(child: ChildProcess): () => number {
  const { pid = 0 } = child;
  let lastMs = Number.NaN;
  const look = (): number => {
    const nowMs = processorMs(pid, pid);
    if (!Number.isNaN(nowMs)) lastMs = nowMs;
    return lastMs;
  };
  const looking = setInterval(look, POLL_MS);
  child.once('exit', () => clearInterval(looking));
  return look;
}
