// Plants bugs, one at a time, in a copy of the sources and counts the seeds that the simulation needs to find each:
// `npm run test:simulation:mutations`. It prints the table of docs/reliability.md.
//
//     --seeds N        tried for each [1000]
//     --only WORDS     bugs whose names contain them
//     --workers N      bugs tried at once, each in a copy of the sources of its own [2, or 1 on one processor]
//     --report FILE    writes the result as JSON
import { spawn } from 'node:child_process';
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
}

/** What `--report` writes. */
interface Report {
  /** How many seeds each bug was tried with at most. */
  readonly seedsAtMost: number;
  readonly bugs: readonly {
    readonly name: string;
    /** Below `src/`. */
    readonly file: string;
    /** The seeds needed to find it; `null`: it was not found. */
    readonly seeds: number | null;
    /** The time was up before all seeds had run. */
    readonly isCutOff: boolean;
    /** What the simulation said. */
    readonly words: string;
  }[];
  readonly seconds: number;
}

const startedAtMs = performance.now();
const workplace = mkdtempSync(join(tmpdir(), 'planted-'));
try {
  cpSync(join(root, 'src'), join(workplace, 'sound'), { recursive: true });
  // Before hours have gone into the first of them.
  for (const bug of plantedBugs) planted(readFileSync(join(workplace, 'sound', bug.file), 'utf8'), bug);
  const lanes = Array.from({ length: Number(values.workers) }, (_, lane) => makeLane(`lane${lane}`));
  const chosen = chosenFrom(plantedBugs, values.only, (name, only) => name.includes(only));
  await findAll(chosen, lanes);
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
  console.log(table(findings));
  const missed = findings.filter(({ seeds }) => seeds === undefined).length;
  conclude(missed, { file: values.report, of: reportOf(findings) });
}

/** A directory in which the simulation runs on sources of its own. */
function makeLane(name: string): string {
  const lane = join(workplace, name);
  for (const part of ['proto', 'config', 'package.json', 'tsconfig.json'])
    cpSync(join(root, part), join(lane, part), { recursive: true });
  for (const part of ['simulation', 'support', 'data'])
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
  const finding: Finding = {
    ...{ bug, isCutOff: isCutOff && match === null },
    ...{ seeds: match === null ? undefined : Number(match[1]), words: match?.[2] ?? '' },
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

function reportOf(findings: readonly Finding[]): Report {
  const bugs = findings.map(({ bug, isCutOff, seeds, words }) => ({
    ...{ name: bug.name, file: bug.file, seeds: seeds ?? null, isCutOff, words },
  }));
  const seconds = Math.round((performance.now() - startedAtMs) / 100) / 10;
  return { seedsAtMost: Number(values.seeds), bugs, seconds };
}

function table(findings: readonly Finding[]): string {
  const rows = findings.map(
    ({ bug, isCutOff, seeds, words }) =>
      `| ${bug.name} | \`${bug.file}\` | ${seeds ?? (isCutOff ? 'time was up' : 'not found')} | ${words} |`,
  );
  return [
    '| planted bug | file | seeds | what the simulation said |',
    '| --- | --- | ---: | --- |',
    ...rows,
  ].join('\n');
}
