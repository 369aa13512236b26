/**
 * `npm run test:formats`: has pandas, polars, pyarrow and DuckDB read what `export` writes, and compares every row with the
 * lines of JSON. They come from PyPI into a virtual environment of their own, in node_modules/.cache; Python must be there.
 *
 *     --heights N    of the simulated chain [600]
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ChainGenerator } from '../../src/devnet/index.js';
import { filledDirectory, writeStore } from '../support/chainReference.js';
import { oddTransactions } from '../support/oddTransactions.js';
import { storeFlags } from '../support/storeDump.js';
import { scriptOptions } from '../support/scriptOptions.js';

const PACKAGES = ['duckdb==2.0.0', 'pandas==3.1.1', 'polars==2.1.0', 'pyarrow==26.0.1', 'pytz', 'zstandard'];
const FIRST = 100;

const root = join(import.meta.dirname, '../..');
const { values: args } = scriptOptions({ options: { heights: { type: 'string', default: '600' } } });
const scratch = mkdtempSync(join(tmpdir(), 'fci-formats-'));

function run(command: string, rest: readonly string[]): void {
  const { status, error } = spawnSync(command, rest, { cwd: root, stdio: 'inherit' });
  if (status !== 0)
    throw new Error(`${command} ${rest[0] ?? ''} failed: ${error?.message ?? String(status)}`);
}

function pythonWithPackages(): string {
  const environment = join(root, 'node_modules', '.cache', 'formats-python');
  const python = join(environment, 'bin', 'python');
  const stamp = join(environment, 'packages');
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== PACKAGES.join('\n')) {
    rmSync(environment, { recursive: true, force: true });
    mkdirSync(join(environment, '..'), { recursive: true });
    run('python3', ['-m', 'venv', environment]);
    run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...PACKAGES]);
    writeFileSync(stamp, PACKAGES.join('\n'));
  }
  return python;
}

function exportAll(dataDir: string, into: string): void {
  mkdirSync(into);
  const command = ['dist/main.js', 'export', ...storeFlags(dataDir), '--quiet', '--output'];
  run(process.execPath, [...command, join(into, 'reference.ndjson')]);
  const files = (name: string, ...flags: string[]): void =>
    run(process.execPath, [...command, join(into, name), '--partition', '100', ...flags]);
  files('parquet', '--format', 'parquet');
  files('parquet-none', '--format', 'parquet', '--compress', 'none');
  files('csv', '--format', 'csv');
  files('csv-gzip', '--format', 'csv', '--compress', 'gzip');
  files('ndjson-gzip', '--compress', 'gzip');
  if (Number(process.versions.node.split('.')[0]) >= 24) {
    files('parquet-zstd', '--format', 'parquet', '--compress', 'zstd');
    files('csv-zstd', '--format', 'csv', '--compress', 'zstd');
  }
}

try {
  const python = pythonWithPackages();
  const [plain, odd] = ['plain', 'odd'].map((name) => join(scratch, name)) as [string, string];
  const chain = new ChainGenerator({ seed: 3, rootHeight: FIRST, profile: 'mixed' });
  await filledDirectory({ chain, from: FIRST, to: FIRST + Number(args.heights) - 1 }, plain);
  await writeStore(odd, oddTransactions(FIRST));
  for (const dataDir of [plain, odd]) {
    exportAll(dataDir, `${dataDir}-files`);
    run(python, [join(import.meta.dirname, 'readers.py'), `${dataDir}-files`]);
  }
} finally {
  rmSync(scratch, { recursive: true });
}
