/* eslint-disable no-console -- a script for the terminal */
// Plants bugs, one at a time, in a copy of the sources and counts the seeds that the simulation needs to find each:
// `npm run test:simulation:mutations`. It prints the table of docs/reliability.md.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { plantedBugs } from './plantedBugs.js';
import type { PlantedBug } from './plantedBugs.js';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    only: { type: 'string' },
    /** A file that gets the outcome as JSON; see `Report`. */
    report: { type: 'string' },
  },
});

const root = fileURLToPath(new URL('../../', import.meta.url));
/** One bug may take so long; what is not found by then is told apart from what all seeds did not find. */
const LIMIT_MS = 900_000;

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
  for (const name of ['proto', 'config', 'package.json', 'tsconfig.json'])
    cpSync(join(root, name), join(workplace, name), { recursive: true });
  cpSync(join(root, 'src'), join(workplace, 'sound'), { recursive: true });
  cpSync(join(root, 'test/simulation'), join(workplace, 'test/simulation'), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(workplace, 'node_modules'));
  restore();
  const references = join(workplace, 'references.json');
  simulate(['--write-references', references]);
  const findings: Finding[] = [];
  for (const bug of plantedBugs.filter(
    ({ name }) => values.only === undefined || name.includes(values.only),
  )) {
    const finding = find(bug, references);
    console.error(
      `${finding.seeds ?? (finding.isCutOff ? 'CUT OFF' : 'NOT FOUND')}\t${bug.name}\t${finding.words}`,
    );
    findings.push(finding);
  }
  console.log(table(findings));
  if (values.report !== undefined)
    writeFileSync(values.report, JSON.stringify(reportOf(findings), undefined, 2) + '\n');
  if (findings.some(({ seeds }) => seeds === undefined)) process.exitCode = 1;
} finally {
  rmSync(workplace, { recursive: true });
}

/** Puts the sound sources in place. The copy was made at the beginning: somebody may be at work. */
function restore(): void {
  cpSync(join(workplace, 'sound'), join(workplace, 'src'), { recursive: true, force: true });
}

function find(bug: PlantedBug, references: string): Finding {
  plant(bug);
  try {
    const { isCutOff, output } = simulate([
      '--seeds',
      values.seeds,
      '--workers',
      '1',
      '--until-failure',
      '--references',
      references,
    ]);
    const match = /^seed (\d+): (.*)$/m.exec(output);
    return {
      ...{ bug, isCutOff: isCutOff && match === null },
      ...{ seeds: match === null ? undefined : Number(match[1]), words: match?.[2] ?? '' },
    };
  } finally {
    restore();
  }
}

function plant({ file, instead, name, of }: PlantedBug): void {
  const path = join(workplace, 'src', file);
  const source = readFileSync(path, 'utf8');
  const at = source.indexOf(of);
  if (at < 0 || source.includes(of, at + 1))
    throw new Error(`${name}: ${file} does not hold the text once: ${of}`);
  writeFileSync(
    path,
    source.replace(of, () => instead),
  );
}

function simulate(flags: readonly string[]): { readonly isCutOff: boolean; readonly output: string } {
  const { error, signal, stdout } = spawnSync('npx', ['tsx', 'test/simulation/run.ts', ...flags], {
    ...{ cwd: workplace, encoding: 'utf8', timeout: LIMIT_MS, stdio: ['ignore', 'pipe', 'ignore'] },
  });
  return { isCutOff: error !== undefined || signal !== null, output: stdout };
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
