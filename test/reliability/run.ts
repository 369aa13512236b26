/**
 * Runs the proofs of docs/reliability.md one after another, and writes the page from what they found. Ends with 1 when one
 * of them failed.
 *
 *     --only NAME       one of them, by its name (`proofs.ts`)
 *     -- ARGUMENTS      for the script of that one: `npm run reliability -- --only soak -- --minutes 5`
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { reliabilityPage } from './page.js';
import { outcomeIn, proofs, reportTo } from './proofs.js';
import { pagePath, readResults, writeResults, type PlantedBug, type RoomCoverage } from './results.js';
import { chosenFrom } from '../support/campaign.js';
import { scriptOptions } from '../support/scriptOptions.js';

const { values: args, positionals } = scriptOptions({
  options: { only: { type: 'string' } },
  allowPositionals: true,
});
const chosen = chosenFrom(proofs, args.only);

interface Report {
  readonly bugs?: readonly PlantedBug[];
  readonly rooms?: readonly RoomCoverage[];
}

const directory = mkdtempSync(join(tmpdir(), 'fci-reliability-'));
let failed = false;
for (const proof of chosen) {
  const { name, command } = proof;
  process.stdout.write(`\n== ${name}: ${command}\n`);
  const file = join(directory, 'report.json');
  const [program = '', ...given] = command.split(' ');
  const separator = given.includes('--') ? [] : ['--'];
  const startedAtMs = performance.now();
  const more = args.only === undefined ? [] : positionals;
  spawnSync(program, [...given, ...separator, ...more, ...reportTo(proof, file)], { stdio: 'inherit' });
  const seconds = Math.round((performance.now() - startedAtMs) / 1000);
  if (!existsSync(file)) {
    process.stdout.write(
      `${name} left no report: it counts as failed, and the page keeps what was known before\n`,
    );
    failed = true;
    continue;
  }
  const report = JSON.parse(readFileSync(file, 'utf8')) as Report;
  rmSync(file);
  const outcome = outcomeIn(report, proof);
  failed ||= outcome.failures > 0;
  const { outcomes, plantedBugs, coverage } = readResults();
  writeResults({
    outcomes: { ...outcomes, [name]: { ...outcome, seconds, date: new Date().toISOString().slice(0, 10) } },
    plantedBugs: report.bugs ?? plantedBugs,
    coverage: report.rooms ?? coverage,
  });
  writeFileSync(pagePath, await reliabilityPage(readResults()));
}
rmSync(directory, { recursive: true });
if (failed) process.exitCode = 1;
