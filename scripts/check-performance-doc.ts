// Fails when docs/performance.md is not as `npm run bench -- --write` wrote it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isAsWritten } from '../test/bench/lib/performancePage.js';

const path = join(import.meta.dirname, '..', 'docs', 'performance.md');
if (!isAsWritten(readFileSync(path, 'utf8'))) {
  process.stderr.write('docs/performance.md was edited: run npm run bench -- --write\n');
  process.exit(1);
}
