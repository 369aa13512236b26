/** How fast a store at rest is exported in each format, beside its lines of JSON. Build first: it runs `dist/main.js`. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { silentLogger } from '../../src/observability/index.js';
import { systemClock } from '../../src/runtime/index.js';
import { LevelIndexStore, SCHEMA_VERSION } from '../../src/storage/index.js';
import { BlockMaker, CHAIN_ID, FIRST_HEIGHT } from './lib/blockEntries.js';
import { ROOT, scratch } from './lib/processes.js';
import { bench, digits } from './lib/report.js';
import { interleave, median, ratioOf } from './lib/statistics.js';
import { scriptOptions } from '../support/scriptOptions.js';

/** Of 50 transactions each. `--full`: a million in all, once in each form; it takes as long as the rounds without it. */
const FULL_HEIGHTS = 20_000;
const HEIGHTS = 2_000;
const QUICK_HEIGHTS = 1_000;
const TRANSACTIONS_PER_HEIGHT = 50;
const COMMIT_HEIGHTS = 32;
const TARGET_SECONDS = 60;
const ROUNDS = 3;
const MICROSECONDS = 1_000_000;

const forms: Readonly<Record<string, readonly string[]>> = {
  'ndjson, one file': [],
  'ndjson, gzip': ['--compress', 'gzip'],
  csv: ['--format', 'csv'],
  'csv, gzip': ['--format', 'csv', '--compress', 'gzip'],
  parquet: ['--format', 'parquet'],
  'parquet without scripts': ['--format', 'parquet', '--no-scripts'],
};
const REFERENCE = 'ndjson, one file';

interface Exported {
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly bytes: number;
  readonly peakMiB: number;
}

const { values: args } = scriptOptions({
  options: {
    heights: { type: 'string' },
    full: { type: 'boolean' },
    form: { type: 'string', multiple: true },
  },
  strict: false,
});
const names = Array.isArray(args.form) ? args.form.map(String) : Object.keys(forms);

await bench(
  {
    title: 'Exports',
    about:
      'Transactions of 655 bytes, 50 in a block, from the store at rest to files, with the start of the program. Processor ' +
      'time is that of all its threads; the peak is of resident memory. Ratios are to the lines of JSON in one file. `--full` exports ' +
      'a million; without it, the seconds of a million are worked out from what a tenth of it takes.',
  },
  async ({ quick, rounds }) => {
    const usual = args.full === true ? FULL_HEIGHTS : HEIGHTS;
    const heights = Number(args.heights ?? (quick ? QUICK_HEIGHTS : usual));
    const dataDir = mkdtempSync(join(scratch, 'data-'));
    await fill(join(dataDir, 'index'), heights);
    const subjects = Object.fromEntries(
      names.map((name) => [name, () => Promise.resolve(exportOnce(dataDir, forms[name] ?? []))]),
    );
    const usualRounds = args.full === true ? 1 : ROUNDS;
    const measured = await interleave(subjects, { rounds: Math.min(rounds, usualRounds) });
    const of = (name: string, what: keyof Exported): number[] =>
      (measured[name] ?? []).map((run) => run[what]);
    const count = heights * TRANSACTIONS_PER_HEIGHT;
    return {
      tables: [
        {
          title: `${count.toLocaleString('en-US')} transactions`,
          columns: ['files', 's', 'processor s', 'ratio', 'transactions/s', 'MiB', 'peak MiB'],
          rows: names.map((name) => [
            ...[name, digits(median(of(name, 'seconds'))), digits(median(of(name, 'cpuSeconds')))],
            digits(ratioOf(of(name, 'cpuSeconds'), of(REFERENCE, 'cpuSeconds'))),
            digits(count / median(of(name, 'seconds'))),
            digits(median(of(name, 'bytes')) / 1024 ** 2),
            digits(median(of(name, 'peakMiB'))),
          ]),
        },
      ],
      figures: names.map((name) => ({
        ...{ what: `a million transactions: ${name}`, unit: 's', atMost: TARGET_SECONDS },
        value: (median(of(name, 'seconds')) * 1_000_000) / count,
      })),
    };
  },
);

async function fill(path: string, heights: number): Promise<void> {
  const store = await LevelIndexStore.open(
    { path, chainId: CHAIN_ID },
    { logger: silentLogger, clock: systemClock },
  );
  const maker = new BlockMaker({ seed: 1, profile: 'dense' });
  await store.initialise({
    ...{ schemaVersion: SCHEMA_VERSION, chainId: CHAIN_ID, firstHeight: FIRST_HEIGHT },
    ...{ createdBy: 'bench', sporks: [] },
  });
  for (let done = 0; done < heights; done += COMMIT_HEIGHTS) {
    const length = Math.min(COMMIT_HEIGHTS, heights - done);
    const blocks = Array.from({ length }, (_, index) => maker.at(FIRST_HEIGHT + done + index));
    for (const block of blocks) store.stage(block);
    await store.commit({ blocks, latestIndexedHeight: FIRST_HEIGHT + done + length - 1 });
  }
  await store.close();
}

/** A process of its own, which tells at its end what it used. */
function exportOnce(dataDir: string, flags: readonly string[]): Exported {
  const to = mkdtempSync(join(scratch, 'export-'));
  const usage = join(to, 'usage.json');
  const command = ['--import', join(ROOT, 'test/bench/usageProbe.mjs'), 'dist/main.js', 'export'];
  const store = ['--network', 'devnet', '--data-dir', dataDir, '--quiet', '--output', join(to, 'files')];
  const startedAtMs = performance.now();
  const { status, stderr } = spawnSync(process.execPath, [...command, ...store, ...flags], {
    ...{ cwd: ROOT, encoding: 'utf8', env: { ...process.env, BENCH_USAGE_FILE: usage } },
  });
  const seconds = (performance.now() - startedAtMs) / 1_000;
  if (status !== 0) throw new Error(`the export failed: ${stderr}`);
  const used = JSON.parse(readFileSync(usage, 'utf8')) as NodeJS.ResourceUsage;
  const cpuSeconds = (used.userCPUTime + used.systemCPUTime) / MICROSECONDS;
  const bytes = bytesIn(join(to, 'files'));
  rmSync(to, { recursive: true });
  return { seconds, cpuSeconds, bytes, peakMiB: used.maxRSS / 1024 };
}

function bytesIn(path: string): number {
  const about = statSync(path);
  if (about.isFile()) return about.size;
  return readdirSync(path).reduce((sum, name) => sum + bytesIn(join(path, name)), 0);
}
