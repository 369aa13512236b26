// Damages the store of a real daemon in every way, and lets every fault befall its disk (`npm run test:disk`). Prints what
// became of each, and exits 1 when anything was served wrong, ended without a name or could not be repaired as the message says.
//
//   npm run test:disk -- --only "log torn"       (scenarios whose name contains it)
//   npm run test:disk -- --report disk.json

import { chosenFrom, conclude, outcomeOf, playEach } from '../support/campaign.js';
import { withCleanup } from '../support/cleanup.js';
import { scriptOptions } from '../support/scriptOptions.js';
import type { Result } from './scenario.js';
import { diskScenarios } from './scenarios.js';
import { Stage } from './stage.js';

const { values } = scriptOptions({ options: { only: { type: 'string' }, report: { type: 'string' } } });
const named = Object.entries(diskScenarios).map(([name, run]) => ({ name, run }));
const chosen = chosenFrom(named, values.only, (name, only) => name.includes(only));
const results = new Map<string, Result>();
await withCleanup(async () => {
  const stage = await Stage.set();
  const played = await playEach(chosen, async ({ name, run }) => {
    const result = await withCleanup(() => run(stage));
    results.set(name, result);
    const { outcome, exitCode, wentOnFrom, remark = [] } = result;
    return [outcome, `exit ${exitCode}`, `went on from ${wentOnFrom}`].concat(remark).join(' | ');
  });
  const rows = played.map(({ name: scenario, failure, seconds }) => ({
    ...{ scenario, passed: failure === null, ...results.get(scenario), seconds },
    ...(failure === null ? {} : { failure }),
  }));
  conclude(outcomeOf(played, 'scenarios'), values.report, { rows });
});
