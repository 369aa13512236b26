// Pages that are written from measurements. docs/performance.md is not written by `npm run docs`: in a check the script fails where it was
// edited since `npm run bench -- --write` wrote it, or has a missed target that docs/missed-targets.md does not explain.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isAsWritten, missedFigures } from '../../test/bench/lib/report.js';
import { reliabilityPage } from '../../test/reliability/page.js';
import { readResults } from '../../test/reliability/results.js';
import { isCheck, root, writeGenerated } from './writeGenerated.js';

function faults(): string[] {
  const page = readFileSync(join(root, 'docs/performance.md'), 'utf8');
  const explained = readFileSync(join(root, 'docs/missed-targets.md'), 'utf8');
  const found = missedFigures(page)
    .filter((figure) => !explained.includes(`\`${figure}\``))
    .map((figure) => `docs/missed-targets.md does not explain why this target is missed: ${figure}`);
  if (!isAsWritten(page)) found.push('docs/performance.md was edited: run npm run bench -- --write');
  return found;
}

writeGenerated('docs/reliability.md', await reliabilityPage(readResults()));
for (const fault of isCheck ? faults() : []) {
  process.stderr.write(`${fault}\n`);
  process.exitCode = 1;
}
