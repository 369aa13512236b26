// Plants bugs, one at a time, in a copy of the sources and counts the seeds that the simulation needs to find each:
// `npm run test:simulation:mutations`. It prints the table of docs/reliability.md. What no seed finds is held against the unit test that
// is to fail with it. `-- --held` does only that, for all that have such a test.
//
//     --seeds N        tried for each [1000]
//     --only WORDS     bugs whose names contain them
//     --workers N      bugs tried at once, each in a copy of the sources of its own [2, or 1 on one processor]
//     --report FILE    writes the result as JSON
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { planted, plantedBugs } from './plantedBugs.js';
import type { PlantedBug } from './plantedBugs.js';
import { chosenFrom, conclude, WORKERS } from '../support/campaign.js';
import { scriptOptions } from '../support/scriptOptions.js';

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
  readonly bug: PlantedBug;
  /** The seeds that were run up to the one that failed; `undefined` when none did. */
  readonly seeds: number | undefined;
  /** The time was up before all seeds had run: that it was not found says nothing. */
  readonly isCutOff: boolean;
  readonly words: string;
  /** Below `test/`: the unit test that fails with the bug in place. Looked for where no seed found it. */
  readonly heldBy: string | undefined;
}

const startedAtMs = performance.now();
const workplace = mkdtempSync(join(tmpdir(), 'planted-'));
try {
  cpSync(join(root, 'src'), join(workplace, 'sound'), { recursive: true });
  // Before hours have gone into the first of them.
  for (const bug of plantedBugs) planted(readFileSync(join(workplace, 'sound', bug.file), 'utf8'), bug);
  const lanes = Array.from({ length: Number(values.workers) }, (_, lane) => makeLane(`lane${lane}`));
  const chosen = chosenFrom(plantedBugs, values.only, (name, only) => name.includes(only));
  if (values.held) {
    for (const bug of chosen) if (!isHeld(bug, lanes[0]!)) process.exitCode = 1;
  } else await findAll(chosen, lanes);
} finally {
  rmSync(workplace, { recursive: true });
}

async function findAll(chosen: readonly PlantedBug[], lanes: readonly string[]): Promise<void> {
  const references = join(workplace, 'references.json');
  await simulate(lanes[0]!, ['--write-references', references]);
  const findings: Finding[] = [];
  const left = chosen.entries();
  await Promise.all(
    lanes.map(async (lane) => {
      for (const [place, bug] of left) findings[place] = await find(bug, lane, references);
    }),
  );
  for (const [place, finding] of findings.entries()) {
    if (finding.seeds !== undefined || finding.bug.heldBy === undefined) continue;
    if (isHeld(finding.bug, lanes[0]!)) findings[place] = { ...finding, heldBy: finding.bug.heldBy.file };
  }
  console.log(table(findings));
  const missed = findings.filter(({ heldBy, seeds }) => seeds === undefined && heldBy === undefined).length;
  conclude({ runs: findings.length, failures: missed, unit: 'bugs' }, values.report, reportOf(findings));
}

/** True for a bug whose unit test passes without it and fails with it, or that has none. */
function isHeld(bug: PlantedBug, lane: string): boolean {
  const { heldBy, name } = bug;
  if (heldBy === undefined) return true;
  const passes = (): boolean => {
    const literally = heldBy.test.replaceAll(/[^\w %]/g, '.').replaceAll(/%[is]/g, '.*');
    const args = ['vitest', 'run', '--project', 'unit', `test/${heldBy.file}`, '-t', literally];
    return spawnSync('npx', args, { cwd: lane, stdio: 'ignore' }).status === 0;
  };
  const isSoundWithout = passes();
  const path = join(lane, 'src', bug.file);
  writeFileSync(path, planted(readFileSync(path, 'utf8'), bug));
  const isHeldUp = isSoundWithout && !passes();
  restore(lane);
  console.log(`${isHeldUp ? 'held' : 'NOT HELD'}\t${name}\t${heldBy.file}`);
  return isHeldUp;
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

async function find(bug: PlantedBug, lane: string, references: string): Promise<Finding> {
  const path = join(lane, 'src', bug.file);
  writeFileSync(path, planted(readFileSync(path, 'utf8'), bug));
  const { isCutOff, output } = await simulate(lane, [
    ...['--seeds', values.seeds, '--workers', '1', '--until-failure', '--references', references],
  ]);
  restore(lane);
  const match = /^seed (\d+): (.*)$/m.exec(output);
  if (match?.[2] !== undefined && NOT_A_BUG.test(match[2]))
    throw new Error(`${bug.name}: what was planted does not run: ${match[2]}`);
  // A seed that fails anyway would find every bug.
  const [, seed] = match ?? [];
  if (seed !== undefined && /^seed \d+: /m.test((await simulate(lane, ['--seed', seed])).output))
    throw new Error(`seed ${seed} fails without a bug: mend that first`);
  const finding: Finding = {
    ...{ bug, isCutOff: isCutOff && match === null },
    ...{ seeds: match === null ? undefined : Number(match[1]), words: match?.[2] ?? '' },
    heldBy: undefined,
  };
  const seeds = finding.seeds ?? (finding.isCutOff ? 'CUT OFF' : 'NOT FOUND');
  console.error(`${seeds}\t${bug.name}\t${finding.words}`);
  return finding;
}

function simulate(
  lane: string,
  flags: readonly string[],
): Promise<{ readonly isCutOff: boolean; readonly output: string }> {
  return new Promise((resolve, reject) => {
    const run = spawn(process.execPath, ['--import', 'tsx', 'test/simulation/run.ts', ...flags], {
      ...{ cwd: lane, timeout: LIMIT_MS, stdio: ['ignore', 'pipe', 'ignore'] },
    });
    let output = '';
    run.stdout.on('data', (data: Buffer) => (output += data.toString()));
    run.once('error', reject);
    run.once('close', (_, signal) => resolve({ isCutOff: signal !== null, output }));
  });
}

/** What `--report` writes: of each bug, the seeds that it took to find it, or the unit test that did. */
function reportOf(findings: readonly Finding[]) {
  const bugs = findings.map(({ bug, heldBy, isCutOff, seeds, words }) => ({
    ...{ name: bug.name, file: bug.file, seeds: seeds ?? null, isCutOff, words, heldBy: heldBy ?? null },
  }));
  const seconds = Math.round((performance.now() - startedAtMs) / 100) / 10;
  return { seedsAtMost: Number(values.seeds), bugs, seconds };
}

function table(findings: readonly Finding[]): string {
  const rows = findings.map(
    ({ bug, heldBy, isCutOff, seeds, words }) =>
      `| ${bug.name} | \`${bug.file}\` | ${seeds ?? heldBy ?? (isCutOff ? 'time was up' : 'not found')} | ${words} |`,
  );
  return [
    '| planted bug | file | seeds | what the simulation said |',
    '| --- | --- | ---: | --- |',
    ...rows,
  ].join('\n');
}
