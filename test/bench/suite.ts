/**
 * Runs the benches one after the other, each in a process of its own, and sums up how the figures stand to their targets:
 * `npm run bench`, in minutes; `npm run bench -- --quick` in about one.
 *
 *     --quick          small runs, for a look: figures of a quick run are not what the targets are about
 *     --only LIST      some of the benches, separated by commas
 *     --rounds N       instead of five
 *     --write          also keep what was measured in docs/performance.results.json, one bench after the other, and write
 *                      docs/performance.md from it and nothing else (not quick)
 */
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { ROOT, scratch, startScript } from './lib/processes.js';
import { formatFigures, isMet, performancePage, type Measured, type Report } from './lib/report.js';
import { refuse, scriptOptions } from '../support/scriptOptions.js';

/** In the order of the report. Each is a script beside this one, and runs alone too: `npx tsx test/bench/NAME.ts`. */
const BENCHES = ['catchUp', 'proving', 'growth', 'tip', 'reads', 'startup', 'peer'];

const RESULTS = join(ROOT, 'docs', 'performance.results.json');

const { values: args } = scriptOptions({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    rounds: { type: 'string' },
    write: { type: 'boolean', default: false },
  },
});
const names = args.only?.split(',') ?? BENCHES;
for (const name of names)
  if (!BENCHES.includes(name)) refuse(`no bench is called ${name}; there are: ${BENCHES.join(', ')}`);
if (args.write && args.quick) refuse('--write does not go with --quick');

const startedAtMs = performance.now();
const reports: Report[] = [];
for (const name of names) {
  const report = await run(name);
  reports.push(report);
  if (args.write) await keep(name, report);
}
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
  if (code !== 0) throw new Error(`the bench ${name} failed`);
  return JSON.parse(readFileSync(json, 'utf8')) as Report;
}

/** Kept at once: a bench that fails later loses nothing. */
async function keep(name: string, report: Report): Promise<void> {
  const results = readResults();
  results[name] = {
    date: new Date().toISOString().slice(0, 10),
    processors: `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown'}`,
    memoryGiB: Math.round(totalmem() / 1024 ** 3),
    system: `${type()} ${release().split('-')[0] ?? ''}`,
    node: process.version,
    report,
  };
  const inOrder = BENCHES.filter((bench) => results[bench] !== undefined);
  const sorted = Object.fromEntries(inOrder.map((bench) => [bench, results[bench]]));
  const how = { ...(await resolveConfig(RESULTS)), filepath: RESULTS };
  writeFileSync(RESULTS, await format(JSON.stringify(sorted), how));
}

function readResults(): Record<string, Measured> {
  return existsSync(RESULTS) ? (JSON.parse(readFileSync(RESULTS, 'utf8')) as Record<string, Measured>) : {};
}

async function writePage(): Promise<void> {
  const path = join(ROOT, 'docs', 'performance.md');
  const results = readResults();
  const absent = BENCHES.filter((name) => results[name] === undefined);
  const style = (await resolveConfig(path)) ?? {};
  writeFileSync(path, await performancePage(Object.values(results), absent, style));
}
