// Plants bugs, one at a time, in a copy of the sources: `npm run test:simulation:mutations`. Of each that the simulation is to find, it
// counts the seeds that takes; what it does not reach is held against the unit test that is to fail with it.
//
//     --seeds N        tried for each [1000]
//     --only WORDS     bugs whose names contain them
//     --held           only those that a unit test is to hold
//     --workers N      bugs tried at once, each in a copy of the sources of its own [2, or 1 on one processor]
//     --report FILE    writes the result as JSON
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { planted, plantedBugs, type PlantedBug } from './plantedBugs.js';
import { chosenFrom, conclude, WORKERS } from '../support/campaign.js';
import { scriptOptions } from '../support/scriptOptions.js';
import { messageOf } from '../../src/runtime/index.js';

const { values } = scriptOptions({
  options: {
    seeds: { type: 'string', default: '1000' },
    only: { type: 'string' },
    held: { type: 'boolean', default: false },
    workers: { type: 'string', default: WORKERS },
    report: { type: 'string' },
  },
});

const root = fileURLToPath(new URL('../../', import.meta.url));
/** One bug may take so long; what is not found by then is told apart from what all seeds did not find. */
const LIMIT_MS = 900_000;

/** A program that does not even run shows nothing. */
const NOT_A_BUG = /SyntaxError|ReferenceError|Transform failed/;

interface Finding {
  /** The seeds that were run up to the one that failed; `null` when none did, or none was run. */
  readonly seeds: number | null;
  /** Below `test/`: the unit test that passes without the bug and fails with it. */
  readonly heldBy: string | null;
  readonly words?: string;
}

const NOT_FOUND: Finding = { seeds: null, heldBy: null, words: 'NOT FOUND' };

const startedAtMs = performance.now();
const workplace = mkdtempSync(join(tmpdir(), 'planted-'));
try {
  cpSync(join(root, 'src'), join(workplace, 'sound'), { recursive: true });
  // Before hours have gone into the first of them.
  for (const bug of plantedBugs) planted(readFileSync(join(workplace, 'sound', bug.file), 'utf8'), bug);
  const lanes = Array.from({ length: Number(values.workers) }, (_, lane) => makeLane(`lane${lane}`));
  const wanted = values.held ? plantedBugs.filter(({ heldBy }) => heldBy !== undefined) : plantedBugs;
  await findAll(
    chosenFrom(wanted, values.only, (name, only) => name.includes(only)),
    lanes,
  );
} finally {
  rmSync(workplace, { recursive: true });
}

async function findAll(chosen: readonly PlantedBug[], lanes: readonly string[]): Promise<void> {
  const references = join(workplace, 'references.json');
  if (!values.held) await simulate(lanes[0]!, ['--write-references', references]);
  const bugs: (Finding & { readonly name: string })[] = [];
  const left = chosen.entries();
  await Promise.all(
    lanes.map(async (lane) => {
      for (const [place, bug] of left) {
        const { name } = bug;
        const finding =
          bug.heldBy === undefined ? findBySeeds(bug, lane, references) : findByTest(bug, bug.heldBy, lane);
        // What cannot be judged counts as not found, and the others go on.
        const { words = '', ...found } = await finding.catch((error: unknown) => {
          restore(lane);
          return { ...NOT_FOUND, words: messageOf(error) };
        });
        console.error([found.seeds ?? found.heldBy ?? '', name, words].join('\t'));
        bugs[place] = { name, ...found };
      }
    }),
  );
  const failures = bugs.filter(({ heldBy, seeds }) => seeds === null && heldBy === null).length;
  const seconds = Math.round((performance.now() - startedAtMs) / 100) / 10;
  const report = { seedsAtMost: Number(values.seeds), bugs, seconds };
  conclude({ runs: bugs.length, failures, unit: 'bugs' }, values.report, report);
}

async function findByTest(
  bug: PlantedBug,
  { file, test }: NonNullable<PlantedBug['heldBy']>,
  lane: string,
): Promise<Finding> {
  const literally = test.replaceAll(/[^\w %]/g, '.').replaceAll(/%[is]/g, '.*');
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const passes = async (): Promise<boolean> => {
    const args = ['run', '--project', 'unit', `test/${file}`, '-t', literally];
    return (await run(lane, [vitest, ...args])).status === 0;
  };
  const isSoundWithout = await passes();
  plant(bug, lane);
  const isHeld = isSoundWithout && !(await passes());
  restore(lane);
  return isHeld ? { seeds: null, heldBy: file } : NOT_FOUND;
}

/** A directory in which the simulation runs on sources of its own. */
function makeLane(name: string): string {
  const lane = join(workplace, name);
  for (const part of ['proto', 'config', 'scripts', 'package.json', 'tsconfig.json', 'vitest.config.ts'])
    cpSync(join(root, part), join(lane, part), { recursive: true });
  for (const part of ['simulation', 'unit', 'support', 'data'])
    cpSync(join(root, 'test', part), join(lane, 'test', part), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(lane, 'node_modules'));
  restore(lane);
  return lane;
}

/** Puts the sound sources in place. The copy was made at the beginning: somebody may be at work. */
function restore(lane: string): void {
  cpSync(join(workplace, 'sound'), join(lane, 'src'), { recursive: true, force: true });
}

function plant(bug: PlantedBug, lane: string): void {
  const path = join(lane, 'src', bug.file);
  writeFileSync(path, planted(readFileSync(path, 'utf8'), bug));
}

async function findBySeeds(bug: PlantedBug, lane: string, references: string): Promise<Finding> {
  plant(bug, lane);
  const { output, status } = await simulate(lane, [
    ...['--seeds', values.seeds, '--workers', '1', '--until-failure', '--references', references],
  ]);
  restore(lane);
  const [, seed, words] = /^seed (\d+): (.*)$/m.exec(output) ?? [];
  if (seed === undefined && NOT_A_BUG.test(output)) throw new Error('what was planted does not run');
  // The time was up before all seeds had run: that it was not found says nothing.
  if (seed === undefined || words === undefined)
    return status === null ? { ...NOT_FOUND, words: 'CUT OFF' } : NOT_FOUND;
  if (NOT_A_BUG.test(words)) throw new Error(`what was planted does not run: ${words}`);
  // A seed that fails anyway would find every bug.
  if (/^seed \d+: /m.test((await simulate(lane, ['--seed', seed])).output))
    throw new Error(`seed ${seed} fails without a bug: mend that first`);
  return { seeds: Number(seed), heldBy: null, words };
}

function simulate(lane: string, flags: readonly string[]) {
  return run(lane, ['--import', 'tsx', 'test/simulation/run.ts', ...flags]);
}

async function run(lane: string, args: readonly string[]) {
  const child = spawn(process.execPath, args, {
    ...{ cwd: lane, timeout: LIMIT_MS, stdio: ['ignore', 'pipe', 'ignore'] },
  });
  let output = '';
  child.stdout.on('data', (data: Buffer) => (output += data.toString()));
  const [status] = (await once(child, 'close')) as [number | null];
  return { status, output };
}
