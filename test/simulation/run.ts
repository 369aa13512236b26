// Runs the simulation: `npm run test:simulation -- --seeds 10000`, or one seed again:
// `npm run test:simulation -- --seed 4711 --verbose`.
//
//     --seeds N                  how many [1000]
//     --from N                   the first of them [1]
//     --seed N                   this one alone
//     --fault-free N             this one, without any fault
//     --verbose                  prints every step
//     --until-failure            stops at the first seed that fails
//     --workers N                processes that do the work [2, or 1 on one processor]
//     --references FILE          digests of fault-free stores, made with --write-references by another run
//     --write-references FILE    makes that file
//     --report FILE              writes the result as JSON
import { fork } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { STRETCHES } from './catalogue.js';
import { knownBadSeeds } from './knownBadSeeds.js';
import { referenceKey, Simulation } from './Simulation.js';
import { RunFailure } from './World.js';
import type { RunResult } from './World.js';
import { conclude, WORKERS } from '../support/campaign.js';
import { scriptOptions } from '../support/scriptOptions.js';

const { values } = scriptOptions({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    'fault-free': { type: 'string' },
    verbose: { type: 'boolean', default: false },
    workers: { type: 'string', default: WORKERS },
    'until-failure': { type: 'boolean', default: false },
    references: { type: 'string' },
    'write-references': { type: 'string' },
    report: { type: 'string' },
    /** Every how many-th seed this process runs; set by the script itself. */
    step: { type: 'string' },
  },
});

interface Tally {
  runs: number;
  steps: number;
  processes: number;
  virtualMs: number;
  longestAfterQuietMs: number;
  readonly failures: { readonly seed: number; readonly message: string }[];
}

/** What `--report` writes. */
interface Report {
  readonly from: number;
  readonly seeds: number;
  /** Seeds that failed, and what was said first; known ones are in knownBadSeeds.ts and not repaired yet. */
  readonly failures: readonly {
    readonly seed: number;
    readonly message: string;
    readonly isKnown: boolean;
  }[];
  readonly seconds: number;
  readonly processes: number;
  readonly steps: number;
  readonly simulatedHours: number;
  /** The longest time, simulated, from the last fault to the end of a run. */
  readonly longestRecoverySeconds: number;
}

/** What a worker tells of its seeds. */
type Message =
  | { readonly begins: number }
  | { readonly ends: number; readonly result: RunResult }
  | { readonly fails: number; readonly message: string }
  | { readonly finished: true };

/** A seed that takes longer goes in circles without time passing. */
const SEED_LIMIT_MS = 30_000;

/** Then another process goes on: what thousands of ended worlds leave behind would slow it down. */
const SEEDS_PER_PROCESS = 500;

const from = Number(values.from);
const seeds = Number(values.seeds);
const print = values.verbose ? (line: string): void => console.log(line) : undefined;

if (values['write-references'] !== undefined) {
  writeFileSync(values['write-references'], JSON.stringify(await referencesOf(new Simulation())));
} else if (values['fault-free'] !== undefined) {
  console.log(await new Simulation().faultFree(Number(values['fault-free']), { isProvable: true }, print));
} else if (values.seed !== undefined) {
  process.exitCode = await replay(Number(values.seed));
} else if (values.step !== undefined) {
  await runSome(Number(values.step));
} else {
  await runAll(Number(values.workers));
}

function simulationOf(): Simulation {
  if (values.references === undefined) return new Simulation();
  const known = JSON.parse(readFileSync(values.references, 'utf8')) as [string, string][];
  return new Simulation({ references: new Map(known) });
}

async function referencesOf(simulation: Simulation): Promise<[string, string][]> {
  const made: [string, string][] = [];
  for (let index = 0; index < STRETCHES; index += 1) {
    for (const isProvable of [false, true])
      made.push([referenceKey(index, { isProvable }), await simulation.reference(index, { isProvable })]);
  }
  return made;
}

async function replay(seed: number): Promise<number> {
  try {
    console.log(await simulationOf().run(seed, print));
    return 0;
  } catch (error) {
    if (!(error instanceof RunFailure)) throw error;
    console.log(`seed ${seed}: ${error.message}`);
    for (const line of error.tail) console.log(`  ${line}`);
    return 1;
  }
}

/** The worker: runs its seeds and tells of each. */
async function runSome(step: number): Promise<void> {
  const simulation = simulationOf();
  const tell = (message: Message): void => void process.send?.(message);
  for (let seed = from; seed < from + seeds; seed += step) {
    tell({ begins: seed });
    try {
      tell({ ends: seed, result: await simulation.run(seed) });
    } catch (error) {
      if (!(error instanceof RunFailure)) throw error;
      tell({ fails: seed, message: error.message });
    }
  }
  tell({ finished: true });
}

async function runAll(workers: number): Promise<void> {
  const startedAtMs = performance.now();
  const tally: Tally = {
    ...{ runs: 0, steps: 0, processes: 0, virtualMs: 0, longestAfterQuietMs: 0, failures: [] },
  };
  const shares = Array.from({ length: workers }, (_, worker) => runShare(from + worker, workers, tally));
  await Promise.all(shares);
  const seconds = (performance.now() - startedAtMs) / 1_000;
  console.log(
    `${tally.runs} seeds, ${tally.failures.length} failed; ${tally.processes} processes, ${tally.steps} steps, ` +
      `${(tally.virtualMs / 3_600_000).toFixed(1)} simulated hours in ${seconds.toFixed(0)} s; ` +
      `at most ${(tally.longestAfterQuietMs / 1_000).toFixed(0)} s from the last fault to the end`,
  );
  const failures = tally.failures.map(({ message, seed }) => ({
    seed,
    message: message.split('\n')[0] ?? '',
    isKnown: knownBadSeeds.some((known) => known.seed === seed && !known.isFixed),
  }));
  const report: Report = {
    ...{ from, seeds: tally.runs, failures: failures.sort((a, b) => a.seed - b.seed) },
    seconds: Math.round(seconds * 10) / 10,
    ...{ processes: tally.processes, steps: tally.steps },
    simulatedHours: Math.round(tally.virtualMs / 360_000) / 10,
    longestRecoverySeconds: Math.round(tally.longestAfterQuietMs / 1_000),
  };
  conclude(failures.filter(({ isKnown }) => !isKnown).length, { file: values.report, of: report });
}

/** Another process runs every `step`-th seed; where it dies or hangs, the next one goes on behind that seed. */
async function runShare(first: number, step: number, tally: Tally): Promise<void> {
  let next = first;
  while (next < from + seeds) {
    if (values['until-failure'] && tally.failures.length > 0) return;
    const end = Math.min(from + seeds, next + SEEDS_PER_PROCESS * step);
    const lost = await runWorker(next, end, step, tally);
    if (lost !== undefined) failed(lost.seed, lost.message, tally);
    next = lost === undefined ? next + SEEDS_PER_PROCESS * step : lost.seed + step;
  }
}

function runWorker(
  first: number,
  end: number,
  step: number,
  tally: Tally,
): Promise<{ readonly seed: number; readonly message: string } | undefined> {
  return new Promise((resolve) => {
    const child = fork(
      fileURLToPath(import.meta.url),
      [
        ...['--from', String(first), '--seeds', String(end - first), '--step', String(step)],
        ...(values.references === undefined ? [] : ['--references', values.references]),
      ],
      { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] },
    );
    let seed = first;
    let lastWords = '';
    let isOver = false;
    const finish = (lost: { readonly seed: number; readonly message: string } | undefined): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(watchdog);
      child.kill('SIGKILL');
      resolve(lost);
    };
    const hangs = (): void => finish({ seed, message: 'time stands still: work goes in circles' });
    let watchdog = setTimeout(hangs, SEED_LIMIT_MS);
    child.stderr?.on('data', (data: Buffer) => (lastWords = (lastWords + data.toString()).slice(-4_000)));
    child.on('message', (message: Message) => {
      clearTimeout(watchdog);
      watchdog = setTimeout(hangs, SEED_LIMIT_MS);
      if ('begins' in message) seed = message.begins;
      else if ('ends' in message) passed(message.result, tally);
      else if ('fails' in message) {
        failed(message.fails, message.message, tally);
        if (values['until-failure']) finish(undefined);
      } else finish(undefined);
    });
    child.once('exit', () => finish({ seed, message: `an error that nobody caught: ${errorIn(lastWords)}` }));
  });
}

function passed({ afterQuietMs, processes, steps, virtualMs }: RunResult, tally: Tally): void {
  tally.runs += 1;
  tally.steps += steps;
  tally.processes += processes;
  tally.virtualMs += virtualMs;
  tally.longestAfterQuietMs = Math.max(tally.longestAfterQuietMs, afterQuietMs);
}

function failed(seed: number, message: string, tally: Tally): void {
  tally.runs += 1;
  tally.failures.push({ seed, message });
  const known = knownBadSeeds.find((each) => each.seed === seed);
  const [first] = message.split('\n');
  console.log(`seed ${seed}: ${first}${known === undefined ? '' : ` (known: ${known.cause})`}`);
  console.log(`  npm run test:simulation -- --seed ${seed} --verbose`);
}

function errorIn(output: string): string {
  return output.split('\n').find((line) => /Error/.test(line)) ?? 'it says nothing';
}
