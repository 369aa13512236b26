/**
 * Runs the benches one after the other, each in a process of its own, and sums up how the figures stand to their targets:
 * `npm run bench`, in minutes; `npm run bench -- --quick` in about one.
 *
 *     --quick          small runs, for a look: figures of a quick run are not what the targets are about
 *     --only LIST      some of the benches, by name, separated by commas
 *     --rounds N       instead of five
 *     --write          also write docs/performance.md, from what was measured and nothing else (all benches, not quick)
 */
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { resolveConfig } from 'prettier';
import { performancePage } from './lib/performancePage.js';
import { ROOT, scratch, startScript } from './lib/processes.js';
import { formatFigures, isMet } from './lib/report.js';
import type { Report } from './lib/report.js';

/** In the order of the report. Each is a script beside this one, and runs alone too: `npx tsx test/bench/NAME.ts`. */
const BENCHES = ['verification', 'catchUp', 'indexOnly', 'growth', 'tip', 'reads', 'stop', 'hashingWorkers'];

const { values: args } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    rounds: { type: 'string' },
    write: { type: 'boolean', default: false },
  },
});
const names = args.only === undefined ? BENCHES : args.only.split(',');
for (const name of names) {
  if (!BENCHES.includes(name)) fail(`no bench is called ${name}; there are: ${BENCHES.join(', ')}`);
}
if (args.write && (args.quick || args.only !== undefined))
  fail('--write goes with neither --quick nor --only');

const startedAtMs = performance.now();
const reports: Report[] = [];
for (const name of names) reports.push(await run(name));
const figures = reports.flatMap((report) => report.figures);
const missed = figures.filter((figure) => !isMet(figure)).length;
const minutes = ((performance.now() - startedAtMs) / 60_000).toFixed(1);
if (names.length > 1) process.stdout.write(`\n${formatFigures(figures, 'All figures')}`);
process.stdout.write(
  `\n${figures.length} figures in ${minutes} minutes, ${missed === 0 ? 'no target missed' : `${missed} targets missed`}\n`,
);
if (args.write) await writePage();
process.exit(0);

async function run(name: string): Promise<Report> {
  const json = join(scratch, `${name}.json`);
  const child = startScript(`test/bench/${name}.ts`, [
    ...['--json', json],
    ...(args.quick ? ['--quick'] : []),
    ...(args.rounds === undefined ? [] : ['--rounds', args.rounds]),
  ]);
  child.stdout?.pipe(process.stdout, { end: false });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) fail(`the bench ${name} failed`);
  return JSON.parse(readFileSync(json, 'utf8')) as Report;
}

async function writePage(): Promise<void> {
  const path = join(ROOT, 'docs', 'performance.md');
  const machine = {
    date: new Date().toISOString().slice(0, 10),
    processors: `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown'}`,
    memoryGiB: Math.round(totalmem() / 1024 ** 3),
    system: `${type()} ${release().split('-')[0] ?? ''}`,
    node: process.version,
  };
  writeFileSync(path, await performancePage(reports, machine, (await resolveConfig(path)) ?? {}));
}

function fail(message: string): never {
  process.stderr.write(`bench: ${message}\n`);
  process.exit(1);
}
