// Fails when docs/performance.md was edited since `npm run bench -- --write` wrote it, or when it has a missed target that
// docs/missed-targets.md does not explain.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isAsWritten, missedFigures } from '../test/bench/lib/report.js';

const docs = join(import.meta.dirname, '..', 'docs');
const page = readFileSync(join(docs, 'performance.md'), 'utf8');
const explained = readFileSync(join(docs, 'missed-targets.md'), 'utf8');

const faults = missedFigures(page)
  .filter((figure) => !explained.includes(`\`${figure}\``))
  .map((figure) => `docs/missed-targets.md does not explain why this target is missed: ${figure}`);
if (!isAsWritten(page)) faults.push('docs/performance.md was edited: run npm run bench -- --write');
for (const fault of faults) process.stderr.write(`${fault}\n`);
if (faults.length > 0) process.exit(1);
