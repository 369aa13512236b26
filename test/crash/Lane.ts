import { cpSync, mkdtempSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import { forNode, root } from '../../scripts/bundle.mjs';
import { daemonSettings, flagOf } from '../../src/config/index.js';
import { startDevnet, type DevnetHandle, type FaultRule } from '../../src/devnet/index.js';
import { demand } from '../support/campaign.js';
import { getJson, Program, storePath } from '../support/index.js';
import type { Dice } from '../simulation/Dice.js';
import type { Failpoint } from './failpoints.js';
import { FIRST_HEIGHT, Judge, LAST_HEIGHT, type Doubts, type Found } from './Judge.js';
import type { CrashPlan } from './Steps.js';
import { newestLog } from './steppedPorts.js';
import type { Witness } from './Witness.js';

const PROCESS_LIMIT_MS = 120_000;

/** Settings of the daemon as their flags have them; a switch is `true` or `false`. */
export type DaemonSettings = Readonly<Record<string, string>>;

/** How often a collection is late, so that heights are completed in another order than theirs. */
const LATE: FaultRule = { method: 'GetFullCollectionByID', fault: 'latency', delayMs: 15, probability: 0.3 };

/** What a kill that came too late, or in time, makes of the time within which the next one comes. */
const KILL_SOONER = 0.7;
const KILL_LATER = 1.03;

interface Parts {
  readonly devnet: DevnetHandle;
  /** The directory of the store that all others must be like. */
  readonly filled: string;
  /** Built: to run the sources takes longer than most of what a process does before it dies. */
  readonly steppedProgram: string;
  readonly judge: Judge;
}

/** What a store, and the processes on it, need: a node, the judge, and a place. One store at a time. */
export class Lane {
  readonly devnet: DevnetHandle;
  readonly #parts: Parts;
  /** Within which time a run is killed: at first as long as one without faults took, from its first word to its end. */
  #killWithinMs: number;
  readonly #live = new Set<Program>();
  readonly #heightsOf: ReadonlyMap<string, readonly number[]>;

  private constructor(parts: Parts, usualMs: number) {
    this.devnet = parts.devnet;
    this.#parts = parts;
    this.#killWithinMs = usualMs;
    this.#heightsOf = heightsOfCollections(parts.devnet);
    process.on('exit', () => this.#killAll());
  }

  /** Starts the node and makes the store that all others must be like. Expected errors: `Verdict`. */
  static async open(): Promise<Lane> {
    const devnet = await startDevnet({
      ...{ seed: 33, startHead: LAST_HEIGHT, endHeight: LAST_HEIGHT, paused: true, hashedIds: true },
      // Execution data to the head.
      executionDataLag: -4,
    });
    for (let height = 0; height <= LAST_HEIGHT; height += 1) devnet.chain.block(height);
    const filled = scratch();
    const program = new Program(startArguments(devnet, filled, {}));
    await program.sees(/"msg":"starting"/);
    const startedAtMs = performance.now();
    const code = await within(program);
    demand(code === 0, `a run without faults ended with ${code}:\n${program.stderr}`);
    const usualMs = performance.now() - startedAtMs;
    // Below `dist`, where packages are found; the next build removes what is left of it.
    const steppedProgram = join(root, 'dist/crash', `${process.pid}.mjs`);
    await build({ ...forNode, entryPoints: ['test/crash/steppedProgram.ts'], outfile: steppedProgram });
    const judge = await Judge.from(filled, devnet.chain);
    return new Lane({ devnet, filled, judge, steppedProgram }, usualMs);
  }

  anyInstantMs(dice: Dice): number {
    return dice.random.next() * this.#killWithinMs;
  }

  /** Runs are as long as the machine is busy: those that end before they are killed are killed sooner from now on. */
  noteKill(wasInTime: boolean): void {
    this.#killWithinMs *= wasInTime ? KILL_LATER : KILL_SOONER;
  }

  async close(): Promise<void> {
    this.#killAll();
    rmSync(this.#parts.filled, { recursive: true, force: true });
    rmSync(this.#parts.steppedProgram, { force: true });
    await this.devnet.close();
  }

  async withDirectory<T>(use: (dataDir: string) => Promise<T>): Promise<T> {
    const dataDir = scratch();
    try {
      return await use(dataDir);
    } finally {
      this.#killAll();
      rmSync(dataDir, { recursive: true, force: true });
    }
  }

  fill(dataDir: string): void {
    cpSync(storePath(this.#parts.filled), storePath(dataDir), { recursive: true });
  }

  haveLateCollections(): void {
    this.devnet.node.setFaults([LATE]);
  }

  startShipped(dataDir: string, settings: DaemonSettings): Program {
    return this.#started(new Program(startArguments(this.devnet, dataDir, settings)));
  }

  rewindShipped(dataDir: string, to: number): Program {
    const place = ['--network', 'devnet', '--data-dir', dataDir];
    return this.#started(new Program(['rewind', ...place, '--to', String(to), '--yes']));
  }

  startStepped(dataDir: string, settings: DaemonSettings, plan: CrashPlan): Program {
    return this.#stepped('start', { ...settingsOf(this.devnet, dataDir), ...settings }, plan, []);
  }

  rewindStepped(dataDir: string, to: number, plan: CrashPlan): Program {
    return this.#stepped('rewind', { network: 'devnet', dataDir }, plan, [String(to)]);
  }

  /** Waits for the end, and takes down what the process said until then. Expected errors: `Verdict`: it hangs. */
  async end(program: Program, witness: Witness): Promise<number | string> {
    const [code] = await Promise.all([within(program), watchStatus(program, witness)]);
    this.#live.delete(program);
    witness.hear(program);
    return code;
  }

  /** The power went as well: what the last write left in the log beyond the last sync is lost, from some byte on. */
  losePower(dataDir: string, witness: Witness, dice: Dice): void {
    const log = newestLog(storePath(dataDir));
    if (log.file === '') return;
    const synced = witness.log?.file === log.file ? witness.log.bytes : 0;
    truncateSync(join(storePath(dataDir), log.file), dice.whole(Math.min(synced, log.bytes), log.bytes));
  }

  examine(dataDir: string, witness: Witness, options?: Doubts): Promise<Found> {
    return this.#parts.judge.examine(dataDir, witness, options);
  }

  /** The shipped program goes on, asks for nothing durable again, and ends with the faultless store. Throws `Verdict`. */
  async recover(
    dataDir: string,
    found: Found,
    settings: DaemonSettings,
    stop?: (program: Program) => Promise<void>,
  ): Promise<void> {
    const { node } = this.devnet;
    node.setFaults([]);
    node.requests.reset();
    const program = this.startShipped(dataDir, settings);
    const [code] = await Promise.all([within(program), stop?.(program)]);
    this.#live.delete(program);
    demand(code === 0, `the restart ended with ${code}: ${program.stderr || program.stdout.slice(-2_000)}`);
    for (const id of node.requests.idsAsked('GetFullCollectionByID')) {
      const heights = this.#heightsOf.get(id) ?? [];
      const isDurable = heights.length > 0 && heights.every(found.isDurable);
      demand(!isDurable, `collection ${id} of height ${heights[0]} was durable, and is asked for again`);
    }
    await this.#parts.judge.prove(dataDir);
  }

  #stepped(command: string, settings: DaemonSettings, plan: CrashPlan, rest: readonly string[]): Program {
    const flags = Object.fromEntries(Object.entries(settings).map(([key, value]) => [key, [value]]));
    const args = [command, JSON.stringify(flags), JSON.stringify(plan), ...rest];
    return this.#started(new Program(args, {}, { script: [this.#parts.steppedProgram] }));
  }

  #started(program: Program): Program {
    this.#live.add(program);
    return program;
  }

  #killAll(): void {
    for (const program of this.#live) program.child.kill('SIGKILL');
    this.#live.clear();
  }
}

export function planOf({ name, passagesMax, underWayMaxMs }: Failpoint, dice: Dice): CrashPlan {
  return {
    failpoint: name,
    // Early ones more often: later runs of a long chain are much alike.
    passage: Math.round(dice.magnitude(1, passagesMax)),
    underWayMs: underWayMaxMs === 0 || dice.chance(0.2) ? 0 : dice.magnitude(0.05, underWayMaxMs),
    // Small enough that tables are written and merged along the way.
    ...(dice.chance(0.5) ? { writeBufferBytes: 64 * 1024 } : {}),
  };
}

function settingsOf(devnet: DevnetHandle, dataDir: string): DaemonSettings {
  return {
    ...{ network: 'devnet', accessNodes: devnet.address, dataDir },
    ...{ startHeight: String(FIRST_HEIGHT), stopHeight: String(LAST_HEIGHT) },
    ...{ 'api.port': '0', 'api.grpcPort': '0', 'metrics.port': '0' },
    ...{ 'log.format': 'json', 'log.level': 'debug' },
  };
}

function startArguments(devnet: DevnetHandle, dataDir: string, settings: DaemonSettings): string[] {
  const flags = Object.entries({ ...settingsOf(devnet, dataDir), ...settings }).flatMap(([key, value]) => {
    const flag = flagOf(key, daemonSettings[key as keyof typeof daemonSettings]);
    if (value === 'true') return [`--${flag}`];
    return value === 'false' ? [`--no-${flag}`] : [`--${flag}`, value];
  });
  return ['start', ...flags];
}

/** Reads the daemon's own status again and again: what it showed to one reader, it must keep. */
async function watchStatus(program: Program, witness: Witness): Promise<void> {
  const { child } = program;
  const port = await program.sees(/"api":\{[^}]*"port":(\d+)[^\n]*"msg":"listening"/).then(
    ([, found]) => found,
    () => undefined,
  );
  while (port !== undefined && child.exitCode === null && child.signalCode === null) {
    const answer = await getJson(`http://127.0.0.1:${port}/status`).catch(() => undefined);
    const latest = (answer?.body as { readonly latestIndexed?: number | null } | undefined)?.latestIndexed;
    if (typeof latest === 'number') witness.sawWatermark(latest);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

async function within(program: Program): Promise<number | string> {
  let hangs = false;
  const timer = setTimeout(() => {
    hangs = true;
    program.child.kill('SIGKILL');
  }, PROCESS_LIMIT_MS);
  const code = await program.exited;
  clearTimeout(timer);
  demand(!hangs, `the process hangs; it last said ${program.stdout.slice(-2_000)}`);
  return code;
}

function heightsOfCollections({ chain }: DevnetHandle): Map<string, number[]> {
  const heights = new Map<string, number[]>();
  for (let height = FIRST_HEIGHT; height <= LAST_HEIGHT; height += 1) {
    for (const { id } of chain.block(height).collections)
      heights.set(id, [...(heights.get(id) ?? []), height]);
  }
  return heights;
}

const scratch = (): string => mkdtempSync(join(tmpdir(), 'fci-crash-'));
