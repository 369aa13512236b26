// Pages that are written from measurements, and not by `npm run docs`: in a check the script fails where docs/performance.md was edited
// since `npm run bench -- --write` wrote it, or has a missed target that docs/missed-targets.md does not explain, and where
// docs/reliability.md does not match its results.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isAsWritten, missedFigures } from '../../test/bench/lib/report.js';
import { reliabilityPage } from '../../test/reliability/page.js';
import { pagePath, readResults } from '../../test/reliability/results.js';
import { isCheck, root } from './writeGenerated.js';

async function faults(): Promise<string[]> {
  const page = readFileSync(join(root, 'docs/performance.md'), 'utf8');
  const explained = readFileSync(join(root, 'docs/missed-targets.md'), 'utf8');
  const found = missedFigures(page)
    .filter((figure) => !explained.includes(`\`${figure}\``))
    .map((figure) => `docs/missed-targets.md does not explain why this target is missed: ${figure}`);
  if (!isAsWritten(page)) found.push('docs/performance.md was edited: run npm run bench -- --write');
  if (readFileSync(pagePath, 'utf8') !== (await reliabilityPage(readResults())))
    found.push('docs/reliability.md does not match docs/reliability.results.json: run npm run reliability');
  return found;
}

for (const fault of isCheck ? await faults() : []) {
  process.stderr.write(`${fault}\n`);
  process.exitCode = 1;
}
