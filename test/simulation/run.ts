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
import { readFileSync, writeFileSync } from 'node:fs';
import { STRETCHES } from './catalogue.js';
import { knownBadSeeds } from './knownBadSeeds.js';
import { referenceKey, Simulation } from './Simulation.js';
import { RunFailure } from './World.js';
import type { RunResult } from './World.js';
import { conclude, serveWork, textOf, Worker, WORKERS } from '../support/campaign.js';
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
    /** Set by the script itself for the processes that do the work. */
    lane: { type: 'boolean', default: false },
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

/** What a worker tells of a seed. */
type Outcome = { readonly result: RunResult } | { readonly failure: string };

/** A seed that takes more processor time goes in circles without time passing. */
const SEED_LIMIT_MS = 30_000;
/** Where the system does not tell, and for a seed that waits for nothing: other work on the machine takes time, too. */
const WAIT_LIMIT_MS = 600_000;
const LOOK_EVERY_MS = 1_000;

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
} else if (values.lane) {
  serve();
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

/** The worker: runs the seeds that it is given. */
function serve(): void {
  const simulation = simulationOf();
  process.on('disconnect', () => process.exit());
  serveWork(async (seed: number): Promise<Outcome> => {
    try {
      return { result: await simulation.run(seed) };
    } catch (error) {
      if (!(error instanceof RunFailure)) throw error;
      return { failure: error.message };
    }
  });
}

async function runAll(workers: number): Promise<void> {
  const startedAtMs = performance.now();
  const tally: Tally = {
    ...{ runs: 0, steps: 0, processes: 0, virtualMs: 0, longestAfterQuietMs: 0, failures: [] },
  };
  const left = Array.from({ length: seeds }, (_, index) => from + index).values();
  await Promise.all(Array.from({ length: workers }, () => runSome(left, tally)));
  const seconds = (performance.now() - startedAtMs) / 1_000;
  console.log(
    `${tally.steps} steps in ${seconds.toFixed(0)} s; ` +
      `at most ${(tally.longestAfterQuietMs / 1_000).toFixed(0)} simulated s from the last fault to the end`,
  );
  const failed = tally.failures.map(({ message, seed }) => ({ seed, message: message.split('\n')[0] ?? '' }));
  const simulatedHours = Math.round(tally.virtualMs / 360_000) / 10;
  const outcome = {
    ...{ runs: tally.runs, failures: failed.length, unit: 'seeds' },
    remark: `${simulatedHours.toFixed(0)} hours simulated, ${tally.processes} processes`,
  };
  conclude(outcome, values.report, {
    ...{ from, failed: failed.sort((a, b) => a.seed - b.seed), seconds: Math.round(seconds * 10) / 10 },
    ...{ processes: tally.processes, steps: tally.steps, simulatedHours },
    // Simulated: from the last fault to the end of a run.
    longestRecoverySeconds: Math.round(tally.longestAfterQuietMs / 1_000),
  });
}

/** Has a process run seeds until none is left; where it dies or hangs, the next one goes on behind that seed. */
async function runSome(left: Iterator<number>, tally: Tally): Promise<void> {
  const flags = values.references === undefined ? [] : ['--references', values.references];
  let worker: Worker<number, Outcome> | undefined;
  for (let count = 0; ; count += 1) {
    const next = left.next();
    if (next.done === true || (values['until-failure'] && tally.failures.length > 0)) break;
    if (count % SEEDS_PER_PROCESS === 0) worker?.close();
    if (count % SEEDS_PER_PROCESS === 0 || worker?.hasEnded !== false) worker = new Worker(flags);
    const outcome = await outcomeOf(worker, next.value);
    if ('result' in outcome) passed(outcome.result, tally);
    else failed(next.value, outcome.failure, tally);
  }
  worker?.close();
}

async function outcomeOf(worker: Worker<number, Outcome>, seed: number): Promise<Outcome> {
  let watchdog: NodeJS.Timeout | undefined;
  const hangs = new Promise<Outcome>((resolve) => {
    const [begunAtMs, usedBeforeMs] = [performance.now(), worker.processorMs()];
    watchdog = setInterval(() => {
      const isSpinning = worker.processorMs() - usedBeforeMs > SEED_LIMIT_MS;
      if (!isSpinning && performance.now() - begunAtMs < WAIT_LIMIT_MS) return;
      worker.kill();
      resolve({ failure: 'time stands still: work goes in circles, or waits for nothing' });
    }, LOOK_EVERY_MS);
  });
  const ran = worker.ask(seed).catch((error: unknown) => ({ failure: textOf(error) }));
  return Promise.race([ran, hangs]).finally(() => clearInterval(watchdog));
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
