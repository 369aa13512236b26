// Feeds random inputs into everything that reads bytes of somebody else's (`npm run test:fuzz`). Prints per target how many
// there were, what became of them and which took longest. Exits 1 at the first one that crashes, hangs or is refused in a
// way that no input may be, and prints the command that repeats it.
//
//   npm run test:fuzz -- --inputs 1000000 --seed 1      (the defaults)
//   npm run test:fuzz -- --target http                  (one target alone)
//   npm run test:fuzz -- --target http --seed 7 --case 815
//   npm run test:fuzz -- --report fuzz.json             (how many inputs, how many findings)

import { Worker } from 'node:worker_threads';
import { HANG_MS, Phase, type campaign, type Tally } from './campaign.js';
import { targets } from './targets.js';
import type { FuzzTarget } from './target.js';
import { chosenFrom, conclude, wholeNumber } from '../support/campaign.js';
import { scriptOptions } from '../support/scriptOptions.js';

const { values } = scriptOptions({
  options: {
    inputs: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: '1' },
    target: { type: 'string' },
    case: { type: 'string' },
    report: { type: 'string' },
  },
});

export interface Assignment {
  readonly target: string;
  readonly seed: number;
  readonly firstIndex: number;
  readonly inputs: number;
  /** What it is at: its `Phase`, and the input under way or the last one. Shared, so that it can be read while it hangs. */
  readonly cells: Int32Array;
}

type Report = Awaited<ReturnType<typeof campaign>>;

const LOOK_EVERY_MS = 500;
/** A message that makes the program take more memory than this is a finding. */
const MAX_HEAP_MB = 1_024;
/** Until the target is ready for the first input (loading the sources, opening servers), and from the last one until it is closed. */
const AROUND_LIMIT_MS = 180_000;
/** A worker that is at the same input for so many times as long as an input may take will never come back. */
const STUCK_FACTOR = 10;

/** A worker does not inherit the loader of TypeScript: it begins by loading it. */
const BOOT = `
  const { module } = require('node:worker_threads').workerData;
  import('tsx/esm/api').then(({ register }) => { register(); return import(module); });
`;

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const replay = (target: string, seed: number, index: number): string =>
  `npm run test:fuzz -- --target ${target} --seed ${seed} --case ${index}`;

/** Runs a target in a worker, so that an input that never ends, or eats all memory, is known by its number. */
async function runTarget(
  target: FuzzTarget,
  seed: number,
  firstIndex: number,
  inputs: number,
): Promise<Report> {
  const cells = new Int32Array(new SharedArrayBuffer(8));
  const assignment: Assignment = { target: target.name, seed, firstIndex, inputs, cells };
  const worker = new Worker(BOOT, {
    eval: true,
    workerData: { assignment, module: new URL('worker.ts', import.meta.url).href },
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
  });
  let seen = { phase: Phase.starting, index: 0, sinceMs: performance.now() };
  const stuck = (nowMs: number): string | undefined => {
    const [phase = Phase.starting, index = 0] = [0, 1].map((cell) => Atomics.load(cells, cell));
    if (phase !== seen.phase || index !== seen.index) seen = { phase, index, sinceMs: nowMs };
    const tookMs = nowMs - seen.sinceMs;
    if (phase === Phase.feeding) return tookMs > HANG_MS * STUCK_FACTOR ? 'it never ends' : undefined;
    const never = phase === Phase.ending ? 'the target never closed' : 'the target was never ready';
    return tookMs > AROUND_LIMIT_MS ? never : undefined;
  };
  let watch: NodeJS.Timeout | undefined;
  const stopped = (problem: string): Report => ({
    tally: { inputs: 0, outcomes: new Map(), slowest: { index: 0, ms: 0 }, elapsedMs: 0 },
    finding: { target: target.name, index: Math.max(Atomics.load(cells, 1), firstIndex), problem },
  });
  try {
    return await new Promise<Report>((resolve) => {
      worker.once('message', (report: Report) => resolve(report));
      worker.once('error', (error) => resolve(stopped(`the worker ended: ${error.message}`)));
      worker.once('exit', (code) => resolve(stopped(`the worker ended with ${code}`)));
      watch = setInterval(() => {
        const problem = stuck(performance.now());
        if (problem !== undefined) resolve(stopped(problem));
      }, LOOK_EVERY_MS);
    });
  } finally {
    clearInterval(watch);
    await worker.terminate();
  }
}

function describe(target: FuzzTarget, { inputs, outcomes, slowest, elapsedMs }: Tally, seed: number): void {
  const rate = Math.round((inputs / Math.max(elapsedMs, 1)) * 1_000).toLocaleString('en');
  print(
    `\n${target.name}: ${inputs.toLocaleString('en')} inputs in ${(elapsedMs / 1_000).toFixed(1)} s (${rate} per second)`,
  );
  print(`  slowest: ${slowest.ms.toFixed(1)} ms (${replay(target.name, seed, slowest.index)})`);
  const byCount = [...outcomes].sort(([, a], [, b]) => b - a);
  for (const [outcome, count] of byCount) print(`  ${count.toLocaleString('en').padStart(9)}  ${outcome}`);
}

const seed = wholeNumber('seed', values.seed);
const all = wholeNumber('inputs', values.inputs);
const single = values.case === undefined ? undefined : wholeNumber('case', values.case);
const chosen = chosenFrom(targets, values.target);
const shares = chosen.reduce((sum, { share }) => sum + share, 0);
let total = 0;
for (const target of chosen) {
  const inputs = single === undefined ? Math.ceil((all * target.share) / shares) : 1;
  const { tally, finding } = await runTarget(target, seed, single ?? 0, inputs);
  describe(target, tally, seed);
  total += tally.inputs;
  if (finding === undefined) continue;
  print(`\nFOUND in ${finding.target}, case ${finding.index}:\n${finding.problem}`);
  print(`\nAgain: ${replay(finding.target, seed, finding.index)}`);
  end(1);
  process.exit();
}
end(0);

function end(failures: number): void {
  conclude({ runs: total, failures, unit: 'inputs' }, values.report, { seed });
}
