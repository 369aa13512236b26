import type { DevnetHandle, DevnetOptions } from '../../src/devnet/index.js';
import { demand } from '../support/campaign.js';
import { atEnd, devnetForTest, lastingPort, programPath, runProgram } from '../support/daemons.js';
import { scratchDirectory, startArguments, startDaemon, type RunningDaemon } from '../support/daemons.js';
import type { PrometheusServer } from './PrometheusServer.js';

export type Scenes = Readonly<Record<string, (stage: Stage) => Promise<void>>>;

export interface Provocation {
  /** All of them must fire. */
  readonly alerts: readonly string[];
  readonly fault: string;
  readonly repaired: string;
  readonly strike: () => unknown;
  /** Default: it passes by itself. */
  readonly fix?: () => unknown;
  /** Longer than this it does not take. Default: two minutes. */
  readonly limitMs?: number;
}

export interface Outcome {
  readonly alert: string;
  readonly fault: string;
  readonly repaired: string;
  /** From the fault, and from its end. */
  readonly firedSeconds: number;
  readonly clearedSeconds: number;
  /** Others that fired meanwhile, for the same daemons. */
  readonly beside: readonly string[];
}

const LIMIT_MS = 120_000;
const LOOK_EVERY_MS = 100;

export const chain = {
  ...{ seed: 21, startHead: 60, paused: true, executionDataLag: -4, sealedLag: 0 },
} satisfies DevnetOptions;

interface StartedAs {
  readonly args: readonly string[];
  readonly nodeFlags: readonly string[];
  daemon: RunningDaemon;
}

export class Stage {
  readonly prometheus: PrometheusServer;
  readonly outcomes: Outcome[] = [];
  /** By instance, as Prometheus calls it. */
  readonly #daemons = new Map<string, StartedAs>();

  constructor(prometheus: PrometheusServer) {
    this.prometheus = prometheus;
    atEnd(() => {
      for (const instance of this.#daemons.keys()) prometheus.remove(instance);
    });
  }

  /** Starts a daemon on a port for metrics that it keeps. It is scraped from now on, and killed at the end of the scene. */
  async start(
    node: { readonly address: string },
    dataDir: string,
    flags: readonly string[] = [],
    nodeFlags: readonly string[] = [],
  ): Promise<string> {
    const port = await lastingPort();
    const instance = `127.0.0.1:${port}`;
    const args = [...startArguments(node, dataDir, ...flags), '--metrics-port', String(port)];
    const daemon = await begin(args, nodeFlags);
    this.#daemons.set(instance, { args, nodeFlags, daemon });
    this.prometheus.add(instance);
    return instance;
  }

  /** A node of the usual chain, but for these options, and before it a daemon that has indexed all of it, and is ready. */
  async startUsual(
    options: DevnetOptions = {},
    flags: readonly string[] = [],
    nodeFlags: readonly string[] = [],
  ): Promise<{ readonly devnet: DevnetHandle; readonly instance: string }> {
    const devnet = await devnetForTest({ ...chain, ...options });
    const from = ['--start-height', '0', ...flags];
    const instance = await this.start(devnet, scratchDirectory(), from, nodeFlags);
    await this.daemon(instance).ready();
    return { devnet, instance };
  }

  daemon(instance: string): RunningDaemon {
    const started = this.#daemons.get(instance);
    if (started === undefined) throw new Error(`no daemon is ${instance}`);
    return started.daemon;
  }

  async restart(instance: string, ...flags: readonly string[]): Promise<void> {
    const started = this.#daemons.get(instance);
    if (started === undefined) throw new Error(`no daemon is ${instance}`);
    started.daemon = await begin([...started.args, ...flags], started.nodeFlags);
  }

  async isScraped(instance: string): Promise<void> {
    const start = (await this.daemon(instance).scrape()).value('process_start_time_seconds');
    await this.#until(`Prometheus scrapes ${instance}`, () =>
      this.prometheus.holds(`process_start_time_seconds{instance="${instance}"} == ${start}`),
    );
  }

  /** Has it fire and clear, and takes the time of both. Expected errors: one that says what did not come. */
  async provoke({ alerts, fault, repaired, fix, strike, limitMs }: Provocation): Promise<void> {
    const beside = new Set<string>();
    const look = async (): Promise<ReadonlySet<string>> => {
      const firing = await this.prometheus.firing([...this.#daemons.keys()]);
      for (const name of firing) if (!alerts.includes(name)) beside.add(name);
      return firing;
    };
    await this.#until(`none of ${alerts.join(', ')} fires`, async () => {
      const firing = await look();
      return alerts.every((name) => !firing.has(name));
    });
    beside.clear();
    // The seconds from the beginning of `act` until each of the alerts fires, or does not any more.
    const take = async (what: string, act: Provocation['fix'], fires: boolean) => {
      const beganAtMs = performance.now();
      const seconds = new Map<string, number>();
      const isOver = async (): Promise<boolean> => {
        const firing = await look();
        for (const name of alerts) {
          if (firing.has(name) === fires && !seconds.has(name))
            seconds.set(name, (performance.now() - beganAtMs) / 1_000);
        }
        return seconds.size === alerts.length;
      };
      // Some faults last, as a disk that is slow again and again.
      await Promise.all([act?.(), this.#until(`${alerts.join(', ')}: one never ${what}`, isOver, limitMs)]);
      return seconds;
    };
    const fired = await take(`fires although ${fault}`, strike, true);
    const cleared = await take(`clears although ${repaired}`, fix, false);
    for (const alert of alerts) {
      this.outcomes.push({
        ...{ alert, fault, repaired, beside: [...beside].toSorted() },
        firedSeconds: fired.get(alert) ?? NaN,
        clearedSeconds: cleared.get(alert) ?? NaN,
      });
    }
  }

  async #until(what: string, holds: () => Promise<boolean>, limitMs = LIMIT_MS): Promise<void> {
    const untilMs = performance.now() + limitMs;
    while (!(await holds())) {
      if (performance.now() > untilMs)
        throw new Error(`not within ${limitMs / 1_000} s: ${what}\n${await this.#said()}`);
      await pause(LOOK_EVERY_MS);
    }
  }

  async #said(): Promise<string> {
    const all = [...this.#daemons.values()].map(async ({ daemon }) => {
      const ready = await daemon.health('/readyz').catch(String);
      const last = daemon.program.stdout.split('\n').slice(-4).join('\n');
      return `${typeof ready === 'string' ? ready : JSON.stringify(ready.body)}\n${last}${daemon.program.stderr.slice(-500)}`;
    });
    return (await Promise.all(all)).join('\n');
  }
}

function begin(args: readonly string[], nodeFlags: readonly string[]): Promise<RunningDaemon> {
  return startDaemon(args, {}, { script: ['--enable-source-maps', ...nodeFlags, programPath] });
}

export async function succeeds(...args: readonly string[]): Promise<void> {
  const { code, stderr } = await runProgram(args);
  if (code !== 0) throw new Error(stderr);
}

/** For a scene that takes the machine's own: its mounts, or the limits of a process. Expected errors: `Verdict`. */
export function demandRoot(): void {
  demand(process.getuid?.() === 0, 'only root can mount and freeze a disk');
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
