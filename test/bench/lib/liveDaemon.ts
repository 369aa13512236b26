import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { modeFlags } from './daemonRun.js';
import type { Mode } from './daemonRun.js';
import { eachLine, ROOT, startProcess } from './processes.js';
import { watchMainThread } from './threadTime.js';

export interface LiveDaemonOptions {
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
  /** The daemon's main.js. */
  readonly program?: string;
}

/** A daemon that runs beside the bench, to be asked and stopped. */
export interface LiveDaemon {
  readonly process: ChildProcess;
  /** Ports on 127.0.0.1. */
  readonly apiPort: number;
  readonly metricsPort: number;
  /** `undefined` where the program has none. */
  readonly grpcPort: number | undefined;
  /** Resolves with the exit code, `null` for a signal. */
  readonly exited: Promise<number | null>;
  /** The text of /metrics. */
  metrics(): Promise<string>;
  latestIndexed(): Promise<number>;
  /** Processor time of its main thread so far, in milliseconds: as of a moment ago, also when it has ended. */
  mainThreadMs(): number;
  /** Resolves once this height is indexed. */
  reaches(height: number): Promise<void>;
  /** SIGTERM; resolves with the milliseconds until it had ended. Rejects when it ended otherwise than with 0. */
  stop(): Promise<number>;
}

/** The line of the log that tells the ports. */
interface Listening {
  readonly msg: string;
  readonly api: { readonly port: number };
  readonly metrics: { readonly port: number };
  readonly grpc?: { readonly port: number };
}

const POLL_MS = 20;

/** Starts the real program and resolves as soon as it listens. Build first: it runs `dist/main.js`. */
export async function startLiveDaemon(options: LiveDaemonOptions): Promise<LiveDaemon> {
  const { node, mode, dataDir, startHeight = 1, stopHeight } = options;
  const child = startProcess([
    ...(options.nodeFlags ?? []),
    ...[resolve(ROOT, options.program ?? 'dist/main.js'), 'start', '--network', 'devnet'],
    ...['--access-node', node, '--data-dir', dataDir, '--start-height', String(startHeight)],
    ...(stopHeight === undefined ? [] : ['--stop-height', String(stopHeight)]),
    ...['--api-port', '0', '--api-grpc-port', '0', '--metrics-port', '0', '--log-format', 'json'],
    ...modeFlags[mode],
    ...(options.flags ?? []),
  ]);
  const exited = once(child, 'exit').then(([code]) => code as number | null);
  const mainThreadMs = watchMainThread(child);
  const ports = await new Promise<Listening>((onPorts, onFailure) => {
    void exited.then((code) => onFailure(new Error(`the daemon ended with ${String(code)}`)));
    void eachLine(child, (line) => {
      const log = JSON.parse(line) as Listening;
      if (log.msg === 'listening') onPorts(log);
    });
  });
  const text = async (port: number, path: string): Promise<string> =>
    (await fetch(`http://127.0.0.1:${port}${path}`)).text();
  const latestIndexed = async (): Promise<number> =>
    (JSON.parse(await text(ports.api.port, '/status')) as { latestIndexed: number | null }).latestIndexed ??
    -1;
  return {
    process: child,
    apiPort: ports.api.port,
    metricsPort: ports.metrics.port,
    grpcPort: ports.grpc?.port,
    exited,
    metrics: () => text(ports.metrics.port, '/metrics'),
    latestIndexed,
    mainThreadMs,
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
