// Writes the Grafana dashboard from scripts/dashboard/; with --check, fails when the file is stale.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { format } from 'prettier';
import { makeDashboard } from './dashboard/makeDashboard.js';

const path = join(
  import.meta.dirname,
  '..',
  'deploy',
  'grafana',
  'dashboards',
  'flow-collection-indexer.json',
);
const text = await format(JSON.stringify(makeDashboard()), { parser: 'json', printWidth: 110 });
if (process.argv.includes('--check')) {
  if (readFileSync(path, 'utf8') !== text) {
    process.stderr.write('deploy/grafana/dashboards is stale: run `npm run docs`.\n');
    process.exitCode = 1;
  }
} else {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
