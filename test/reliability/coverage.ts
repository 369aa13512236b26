/**
 * Measures how much of the indexing line, the store and the proofs the unit and integration tests take: lines and branches of
 * each room as a whole. Ends with 1 when a room has less than `LEAST_PERCENT` of either, or a test fails.
 *
 *     --report FILE    writes what was measured
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, sep } from 'node:path';
import { LEAST_PERCENT, MEASURED, type RoomCoverage } from './results.js';
import { conclude } from '../support/campaign.js';
import { scriptOptions } from '../support/scriptOptions.js';

interface Counts {
  readonly total: number;
  readonly covered: number;
}
/** By absolute path, besides a `total`. */
type Summary = Readonly<Record<string, { readonly lines: Counts; readonly branches: Counts }>>;

const { values: args } = scriptOptions({ options: { report: { type: 'string' } } });
const root = join(import.meta.dirname, '../..');
const directory = mkdtempSync(join(tmpdir(), 'fci-coverage-'));
const { status } = spawnSync(
  'npx',
  [
    ...['vitest', 'run', '--project', 'unit', '--project', 'integration', '--coverage'],
    `--coverage.include=src/{${MEASURED.join(',')}}/**/*.ts`,
    ...['--coverage.reporter=text', '--coverage.reporter=json-summary'],
    `--coverage.reportsDirectory=${directory}`,
  ],
  { cwd: root, stdio: 'inherit' },
);
if (status === 0) {
  const summary = JSON.parse(readFileSync(join(directory, 'coverage-summary.json'), 'utf8')) as Summary;
  const rooms = MEASURED.map((room) => roomOf(room, summary));
  for (const { room, lines, branches } of rooms)
    process.stdout.write(`${room}: ${lines} % of lines, ${branches} % of branches\n`);
  const failures = rooms.filter(({ lines, branches }) => Math.min(lines, branches) < LEAST_PERCENT).length;
  if (failures > 0) process.stdout.write(`every room must have ${LEAST_PERCENT} % of both\n`);
  conclude({ runs: rooms.length, failures, unit: 'rooms' }, args.report, { rooms });
} else {
  process.exitCode = 1;
}
rmSync(directory, { recursive: true, force: true });

function roomOf(room: string, summary: Summary): RoomCoverage {
  const prefix = join('src', room) + sep;
  const files = Object.keys(summary).filter((file) => relative(root, file).startsWith(prefix));
  if (files.length === 0) throw new Error(`nothing was measured of ${prefix}`);
  const percent = (of: 'lines' | 'branches'): number => {
    const sum = (count: keyof Counts): number =>
      files.reduce((all, file) => all + (summary[file]?.[of][count] ?? 0), 0);
    // Rounded down: 94.96 is not 95.
    return Math.floor((sum('covered') * 1000) / sum('total')) / 10;
  };
  return { room, lines: percent('lines'), branches: percent('branches') };
}
