// Runs the simulation: `npm run test:simulation -- --seeds 10000`, or one seed again:
// `npm run test:simulation -- --seed 4711 --verbose`.
//
//     --seeds N                  how many [1000]
//     --from N                   the first of them [1]
//     --seed N                   this one alone
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
import { RunFailure, type RunResult } from './World.js';
import { conclude, isLane, serveWork, textOf, wholeNumber, workOff, WORKERS } from '../support/campaign.js';
import type { Worker } from '../support/campaign.js';
import { scriptOptions } from '../support/scriptOptions.js';

const { values } = scriptOptions({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    verbose: { type: 'boolean', default: false },
    workers: { type: 'string', default: WORKERS },
    'until-failure': { type: 'boolean', default: false },
    references: { type: 'string' },
    'write-references': { type: 'string' },
    report: { type: 'string' },
  },
});

type Outcome = { readonly result: RunResult } | { readonly failure: string };

/** A seed that takes more processor time goes in circles without time passing. */
const SEED_LIMIT_MS = 30_000;
/** Where the system does not tell, and for a seed that waits for nothing: other work on the machine takes time, too. */
const WAIT_LIMIT_MS = 600_000;
const LOOK_EVERY_MS = 1_000;
/** What thousands of ended worlds leave behind slows a process down. */
const SEEDS_PER_PROCESS = 500;

if (isLane) serve();
else if (values['write-references'] !== undefined)
  writeFileSync(values['write-references'], JSON.stringify(await referencesOf(new Simulation())));
else if (values.seed !== undefined) await replay(Number(values.seed));
else await runAll(wholeNumber('from', values.from), wholeNumber('seeds', values.seeds));

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

async function replay(seed: number): Promise<void> {
  const print = values.verbose ? (line: string): void => console.log(line) : undefined;
  try {
    console.log(await simulationOf().run(seed, print));
  } catch (error) {
    if (!(error instanceof RunFailure)) throw error;
    console.log([`seed ${seed}: ${error.message}`, ...error.tail].join('\n  '));
    process.exitCode = 1;
  }
}

function serve(): void {
  const simulation = simulationOf();
  serveWork(async (seed: number): Promise<Outcome> => {
    try {
      return { result: await simulation.run(seed) };
    } catch (error) {
      if (!(error instanceof RunFailure)) throw error;
      return { failure: error.message };
    }
  });
}

async function runAll(from: number, seeds: number): Promise<void> {
  const startedAtMs = performance.now();
  const left = Array.from({ length: seeds }, (_, index) => from + index);
  const failed: { readonly seed: number; readonly message: string }[] = [];
  const sums = { steps: 0, processes: 0, virtualMs: 0 };
  let longestAfterQuietMs = 0;
  let runs = 0;
  const how = { workers: values.workers, tasksPerProcess: SEEDS_PER_PROCESS };
  await workOff<number, number, Outcome>(left, how, async (seed, worker) => {
    const outcome = await outcomeOf(worker, seed);
    runs += 1;
    if ('failure' in outcome) {
      const [message = ''] = outcome.failure.split('\n');
      failed.push({ seed, message });
      const known = knownBadSeeds.find((each) => each.seed === seed);
      console.log(`seed ${seed}: ${message}${known === undefined ? '' : ` (known: ${known.cause})`}`);
      console.log(`  npm run test:simulation -- --seed ${seed} --verbose`);
      if (values['until-failure']) left.length = 0;
      return;
    }
    const { result } = outcome;
    for (const what of ['steps', 'processes', 'virtualMs'] as const) sums[what] += result[what];
    longestAfterQuietMs = Math.max(longestAfterQuietMs, result.afterQuietMs);
  });
  const { processes, steps, virtualMs } = sums;
  const seconds = Math.round((performance.now() - startedAtMs) / 100) / 10;
  // Simulated: from the last fault to the end of a run.
  const longestRecoverySeconds = Math.round(longestAfterQuietMs / 1_000);
  const simulatedHours = Math.round(virtualMs / 360_000) / 10;
  console.log(
    `${steps} steps in ${seconds} s; at most ${longestRecoverySeconds} simulated s from the last fault to the end`,
  );
  const remark = `${simulatedHours.toFixed(0)} hours simulated, ${processes} processes`;
  conclude({ runs, failures: failed.length, unit: 'seeds', remark }, values.report, {
    ...{ from, failed: failed.sort((a, b) => a.seed - b.seed), seconds },
    ...{ processes, steps, simulatedHours, longestRecoverySeconds },
  });
}

/** A process that dies, or hangs, over a seed is given no other. */
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
