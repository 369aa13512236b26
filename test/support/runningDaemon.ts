import type { StatusDocument } from '../../src/api/index.js';
import { startDevnet, type DevnetHandle, type DevnetOptions } from '../../src/devnet/index.js';
import type { Readiness, ReadinessReason } from '../../src/observability/index.js';
import { atEnd } from './cleanup.js';
import { HousedProgram } from './HousedProgram.js';
import { getJson, type JsonAnswer } from './httpProbe.js';
import { memoryBytes } from './processFiles.js';
import { eventually, scratchDirectory, startProgram } from './program.js';
import type { Printed, Program, RunAs } from './program.js';
import { ScrapedMetrics } from './scrapedMetrics.js';

/** A simulated access node in this process; it is gone at the end of the test, which fails if the node has a bug. */
export async function devnetForTest(...how: Parameters<typeof startDevnet>): Promise<DevnetHandle> {
  const devnet = await startDevnet(...how);
  atEnd(async () => {
    await devnet.close();
    await devnet.finished;
  });
  return devnet;
}

/** The command line of a daemon on the simulated network: free ports, JSON logs. */
export function startArguments(
  devnet: { readonly address: string },
  dataDir: string,
  ...flags: readonly string[]
): string[] {
  return [
    ...['start', '--network', 'devnet', '--access-node', devnet.address, '--data-dir', dataDir],
    ...['--api-port', '0', '--api-grpc-port', '0', '--metrics-port', '0', '--log-format', 'json', ...flags],
  ];
}

/** Compression costs more than the answer. And a kept connection may be closed as it is used again, which `fetch` does not retry. */
const plainly = { headers: { 'accept-encoding': 'identity', connection: 'close' } };

/** A daemon that listens, and what it says of itself. */
export class RunningDaemon<P extends Printed = Program> {
  readonly program: P;
  readonly apiUrl: string;
  readonly metricsUrl: string;
  /** `host:port`, while gRPC is on. */
  readonly grpcAddress: string;

  constructor(
    program: P,
    ports: { readonly api: number; readonly grpc?: number | undefined; readonly metrics: number },
  ) {
    this.program = program;
    this.grpcAddress = `127.0.0.1:${ports.grpc ?? 0}`;
    this.apiUrl = `http://127.0.0.1:${ports.api}`;
    this.metricsUrl = `http://127.0.0.1:${ports.metrics}`;
  }

  api(path: string): Promise<JsonAnswer> {
    return getJson(this.apiUrl + path, plainly);
  }

  /** Waits while its indexing thread is too busy to answer, as it may be on a machine that is. */
  status(): Promise<StatusDocument> {
    return eventually(async () => {
      const { status, body } = await this.api('/status');
      if (status === 503 && (body as { readonly reason: string }).reason === 'indexer_silent')
        return undefined;
      if (status !== 200) throw new Error(`/status answered ${status}: ${JSON.stringify(body)}`);
      return body as StatusDocument;
    });
  }

  /** Asks until the status meets a condition; the test's own time limit is the bound. */
  statusUntil(condition: (status: StatusDocument) => boolean): Promise<StatusDocument> {
    return eventually(async () => {
      const status = await this.status();
      return condition(status) && status;
    });
  }

  health(path: '/livez' | '/readyz'): Promise<JsonAnswer> {
    return getJson(this.metricsUrl + path, plainly);
  }

  ready(): Promise<unknown> {
    return eventually(async () => (await this.health('/readyz')).status === 200);
  }

  /** What `/readyz` says that it lacks. */
  async reasons(): Promise<readonly ReadinessReason[]> {
    return ((await this.health('/readyz')).body as Readiness).reasons;
  }

  /** The reason of this code, or in such words, once there is one. */
  reason(which: ReadinessReason['code'] | RegExp): Promise<ReadinessReason> {
    return eventually(async () =>
      (await this.reasons()).find(({ code, message }) =>
        typeof which === 'string' ? code === which : which.test(message),
      ),
    );
  }

  async scrape(): Promise<ScrapedMetrics> {
    const response = await fetch(`${this.metricsUrl}/metrics`, plainly);
    return new ScrapedMetrics(await response.text());
  }

  /** The most memory that the process ever had resident; on other systems than Linux, what it has now. */
  async peakMemoryBytes(this: RunningDaemon): Promise<number> {
    const peak = memoryBytes(this.program.child.pid ?? 0, 'VmHWM');
    return peak || (await this.scrape()).value('process_resident_memory_bytes');
  }

  /** Scrapes until the metrics meet a condition; the test's own time limit is the bound. */
  scrapeUntil(condition: (metrics: ScrapedMetrics) => boolean): Promise<ScrapedMetrics> {
    return eventually(async () => {
      const metrics = await this.scrape();
      return condition(metrics) && metrics;
    });
  }

  reaches(height: number): Promise<ScrapedMetrics> {
    return this.scrapeUntil((metrics) => metrics.value('latest_indexed_height') >= height);
  }
}

/** Starts a daemon and waits until it listens. It is killed at the end of the test whatever happens. */
export async function startDaemon(
  args: readonly string[],
  environment?: Readonly<Record<string, string>>,
  as?: RunAs,
): Promise<RunningDaemon> {
  return listening(startProgram(args, environment, as));
}

export type DaemonHere = RunningDaemon<HousedProgram>;

/** A daemon in this process, which is stopped at the end of the test. */
export function startHere(
  args: readonly string[],
  environment?: Readonly<Record<`FCI_${string}`, string>>,
): HousedProgram {
  const program = new HousedProgram(args, environment);
  atEnd(() => program.stop());
  return program;
}

/** As `startDaemon`, in this process: for what a daemon says over its ports. What the system does with it wants a process. */
export function startDaemonHere(
  args: readonly string[],
  environment?: Readonly<Record<`FCI_${string}`, string>>,
): Promise<DaemonHere> {
  return listening(startHere(args, environment));
}

/** As `startDaemonHere`, on this node, with an empty data directory. */
export function daemonOn(
  node: { readonly address: string },
  ...flags: readonly string[]
): Promise<DaemonHere> {
  return startDaemonHere(startArguments(node, scratchDirectory(), ...flags));
}

/** A daemon in this process that has indexed a chain, which stands still and is sealed, from its root to its head; and its node. */
export async function indexedHere(
  chain: DevnetOptions & { readonly startHead: number },
  ...flags: readonly string[]
) {
  const devnet = await devnetForTest({ paused: true, sealedLag: 0, ...chain });
  const dataDir = scratchDirectory();
  const args = startArguments(devnet, dataDir, '--start-height', 'root', ...flags);
  const daemon = await startDaemonHere(args);
  await daemon.reaches(chain.startHead);
  return { devnet, dataDir, args, daemon };
}

/** As `startDaemonHere`, to its end: at its stop height, or with a refusal. */
export async function runDaemonHere(
  args: readonly string[],
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  const program = startHere(args);
  const code = await program.exited;
  return { code, stdout: program.stdout, stderr: program.stderr };
}

export async function listening<P extends Printed>(program: P): Promise<RunningDaemon<P>> {
  await program.sees(/"msg":"listening".*\n/);
  const { api, grpc, metrics } = program.logs().find(({ msg }) => msg === 'listening') as unknown as {
    readonly api?: { readonly port: number };
    readonly grpc?: { readonly port: number };
    readonly metrics: { readonly port: number };
  };
  return new RunningDaemon(program, { api: api?.port ?? 0, grpc: grpc?.port, metrics: metrics.port });
}
