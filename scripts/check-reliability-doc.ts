// Fails when docs/reliability.md is not what its results say.
import { readFileSync } from 'node:fs';
import { reliabilityPage } from '../test/reliability/page.js';
import { pagePath, readResults } from '../test/reliability/results.js';

if (readFileSync(pagePath, 'utf8') !== (await reliabilityPage(readResults()))) {
  process.stderr.write(
    'docs/reliability.md is not what docs/reliability.results.json says: run npm run reliability\n',
  );
  process.exit(1);
}
