// Fails when docs/reliability.md does not match its results.
import { readFileSync } from 'node:fs';
import { reliabilityPage } from '../test/reliability/page.js';
import { pagePath, readResults } from '../test/reliability/results.js';

if (readFileSync(pagePath, 'utf8') !== (await reliabilityPage(readResults()))) {
  process.stderr.write(
    'docs/reliability.md does not match docs/reliability.results.json: run npm run reliability\n',
  );
  process.exit(1);
}
