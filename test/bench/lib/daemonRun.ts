import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { eachLine, ROOT, scratch, startProcess } from './processes.js';
import { watchMainThread } from './threadTime.js';

export type Mode = 'edi-only' | 'requester-only' | 'hybrid';

export const modeFlags: Readonly<Record<Mode, readonly string[]>> = {
  'edi-only': ['--edi-only'],
  'requester-only': ['--no-edi'],
  hybrid: [],
};

export interface DaemonRunOptions {
  /** `host:port`. */
  readonly node: string;
  readonly mode: Mode;
  /** Heights 1 … `heights` are indexed. */
  readonly heights: number;
  /** Further flags of `start`. */
  readonly flags?: readonly string[];
  /** Flags of the Node.js that runs it. */
  readonly nodeFlags?: readonly string[];
  /** The daemon's main.js. */
  readonly program?: string;
  /** Where to index; the caller's to remove. Else a directory of the run's own, gone afterwards. */
  readonly dataDir?: string;
  /** Called twice a second with the text of /metrics. */
  readonly onMetrics?: (text: string) => void;
}

export interface DaemonRun {
  readonly heightsPerSecond: number;
  /** Of the processor, per height, in all threads of the daemon. */
  readonly userMsPerHeight: number;
  readonly systemMsPerHeight: number;
  /** With everything that is mapped, the store's files too; and without, where the system tells. */
  readonly peakResidentMiB: number;
  readonly peakAnonymousMiB: number;
  /** How late the event loop was, at worst but for one time in a hundred. */
  readonly eventLoopDelayP99Ms: number;
  /** Processor time of the main thread, as the kernel counts it. */
  readonly mainThreadMsPerHeight: number;
  /** For how long the event loop had work, per height, up to the very end of the process. */
  readonly loopMsPerHeight: number;
}

interface Usage {
  readonly userCPUTime: number;
  readonly systemCPUTime: number;
  readonly maxRSS: number;
}

interface FinalUsage extends Usage {
  readonly eventLoopDelayP99Ms: number;
  /** For how long the event loop had work. */
  readonly loopActiveMs: number;
}

const MEMORY_POLL_MS = 100;
const SCRAPE_MS = 500;
const MIB = 1024 * 1024;

/**
 * Runs the real program from an empty store to its stop height and measures from the log line that begins the store to
 * the one that says that the stop height is reached: everything is durable by then. Build first: it runs `dist/main.js`.
 */
export async function runDaemon(options: DaemonRunOptions): Promise<DaemonRun> {
  const { heights, mode, node } = options;
  const dataDir = options.dataDir ?? mkdtempSync(join(scratch, 'data-'));
  const usageFile = join(scratch, 'usage.json');
  const child = startProcess(
    [
      ...['--import', resolve(ROOT, 'test/bench/usageProbe.mjs'), ...(options.nodeFlags ?? [])],
      ...[resolve(ROOT, options.program ?? 'dist/main.js'), 'start', '--network', 'devnet'],
      ...[
        '--access-node',
        node,
        '--data-dir',
        dataDir,
        '--start-height',
        '1',
        '--stop-height',
        String(heights),
      ],
      ...['--api-port', '0', '--api-grpc-port', '0', '--metrics-port', '0', '--log-format', 'json'],
      ...modeFlags[mode],
      ...(options.flags ?? []),
    ],
    { BENCH_USAGE_FILE: usageFile },
  );
  const mainThreadMs = watchMainThread(child);
  let begin:
    { readonly atMs: number; readonly mainThreadMs: number; readonly usage: Promise<Usage> } | undefined;
  let endMs = 0;
  let mainThreadEndMs = 0;
  let metricsPort = 0;
  const exited = once(child, 'exit') as Promise<[number | null]>;
  const lines = eachLine(child, (line) => {
    const { msg, metrics } = JSON.parse(line) as { msg: string; metrics?: { port: number } };
    if (msg === 'listening') metricsPort = metrics?.port ?? 0;
    if (msg === 'stop height reached') {
      endMs = performance.now();
      mainThreadEndMs = mainThreadMs();
    }
    if (msg !== 'new store created') return;
    const usage = once(child, 'message').then(([used]) => used as Usage);
    begin = { atMs: performance.now(), mainThreadMs: mainThreadMs(), usage };
    child.send('usage');
  });
  let anonymousMiB = 0;
  const memory = setInterval(() => {
    anonymousMiB = Math.max(anonymousMiB, anonymousMiBOf(child));
  }, MEMORY_POLL_MS);
  const scraping = setInterval(() => {
    const { onMetrics } = options;
    if (metricsPort === 0 || onMetrics === undefined) return;
    void fetch(`http://127.0.0.1:${metricsPort}/metrics`)
      .then((response) => response.text())
      .then(onMetrics)
      .catch(() => undefined);
  }, SCRAPE_MS);
  const [code] = await exited;
  await lines;
  clearInterval(memory);
  clearInterval(scraping);
  if (code !== 0 || begin === undefined) throw new Error(`the daemon ended with ${String(code)}`);
  const before = await begin.usage;
  const after = JSON.parse(readFileSync(usageFile, 'utf8')) as FinalUsage;
  if (options.dataDir === undefined) rmSync(dataDir, { recursive: true });
  return {
    heightsPerSecond: (heights * 1000) / (endMs - begin.atMs),
    userMsPerHeight: (after.userCPUTime - before.userCPUTime) / 1000 / heights,
    systemMsPerHeight: (after.systemCPUTime - before.systemCPUTime) / 1000 / heights,
    peakResidentMiB: (after.maxRSS * 1024) / MIB,
    peakAnonymousMiB: anonymousMiB,
    eventLoopDelayP99Ms: after.eventLoopDelayP99Ms,
    mainThreadMsPerHeight: (mainThreadEndMs - begin.mainThreadMs) / heights,
    loopMsPerHeight: after.loopActiveMs / heights,
  };
}

/** Memory that no file backs, in MiB; 0 where the system does not tell, or for a process that has ended. */
export function anonymousMiBOf({ pid }: ChildProcess): number {
  const file = `/proc/${String(pid)}/status`;
  if (!existsSync(file)) return 0;
  try {
    return Number(/^RssAnon:\s+(\d+)/m.exec(readFileSync(file, 'utf8'))?.[1] ?? 0) / 1024;
  } catch {
    // It has just ended.
    return 0;
  }
}

/** The sum of all series of the daemon's own metrics that begin with this. */
export function sumOfMetrics(text: string, beginning: string): number {
  let sum = 0;
  for (const line of text.split('\n')) {
    if (line.startsWith(`flow_collection_indexer_${beginning}`)) sum += Number(line.split(' ').at(-1));
  }
  return sum;
}
