// Damages the store of a real daemon in every way, and lets every fault befall its disk (`npm run test:disk`). Prints what
// became of each, and exits 1 when anything was served wrong, ended without a name or could not be repaired as the message says.
//
//   npm run test:disk -- --only "log torn"       (scenarios whose name contains it)
//   npm run test:disk -- --report disk.json

import { writeFileSync } from 'node:fs';
import { withCleanup } from '../support/cleanup.js';
import { diskScenarios } from './scenarios.js';
import type { Result } from './scenario.js';
import { Stage } from './stage.js';
import { scriptOptions } from '../support/scriptOptions.js';

const { values } = scriptOptions({ options: { only: { type: 'string' }, report: { type: 'string' } } });
const chosen = diskScenarios.filter(({ name }) => name.includes(values.only ?? ''));
if (chosen.length === 0) throw new Error(`no scenario is named like ${JSON.stringify(values.only)}`);

interface Row extends Partial<Result> {
  readonly scenario: string;
  readonly passed: boolean;
  readonly seconds: number;
  readonly failure?: string;
}

function print({ scenario, passed, outcome, exitCode, wentOnFrom, remark, failure }: Row): void {
  const what = passed
    ? `${outcome ?? ''} | exit ${exitCode ?? ''} | went on from ${wentOnFrom ?? ''}`
    : 'FAILED';
  process.stdout.write(`${scenario.padEnd(58)} | ${what}${remark === undefined ? '' : ` | ${remark}`}\n`);
  if (failure !== undefined) process.stdout.write(`${failure}\n`);
}

const rows: Row[] = [];
await withCleanup(async () => {
  const stage = await Stage.set();
  for (const { name: scenario, run } of chosen) {
    const startedAt = performance.now();
    const row = await withCleanup(() => run(stage)).then(
      (result) => ({ scenario, passed: true, ...result }),
      (error: unknown) => ({
        ...{ scenario, passed: false },
        failure: error instanceof Error ? (error.stack ?? error.message) : String(error),
      }),
    );
    rows.push({ ...row, seconds: Math.round((performance.now() - startedAt) / 100) / 10 });
    print(rows.at(-1) as Row);
  }
});
const failures = rows.filter(({ passed }) => !passed).length;
process.stdout.write(`${rows.length} scenarios, ${failures} failed\n`);
if (values.report !== undefined) {
  writeFileSync(values.report, `${JSON.stringify({ scenarios: rows.length, failures, rows }, null, 2)}\n`);
}
process.exitCode = failures === 0 ? 0 : 1;
