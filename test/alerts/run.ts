/**
 * Provokes every shipped alert by the fault that it names: a real Prometheus scrapes real daemons, with the shipped rules,
 * whose durations are divided by sixty. Then runs every query of the dashboard against it. `npm run test:alerts` builds
 * first; `-- --only PATTERN` for scenes by their names, `-- --write` for the table in docs/alerts.md.
 */
import { spawnSync } from 'node:child_process';
import { orAborted } from '../../src/runtime/index.js';
import { alertRules } from '../support/alertRules.js';
import { chosenFrom, conclude, textOf } from '../support/campaign.js';
import { scratchDirectory, withCleanup } from '../support/daemons.js';
import { checkDashboard } from './checkDashboard.js';
import { writePage } from './page.js';
import { PrometheusServer } from './PrometheusServer.js';
import { chainScenes } from './scenes/chain.js';
import { diskScenes } from './scenes/disk.js';
import { nodeScenes } from './scenes/nodes.js';
import { processScenes } from './scenes/process.js';
import { sharedScenes } from './scenes/shared.js';
import { Stage, type Outcome, type Scenes } from './Stage.js';
import { scriptOptions } from '../support/scriptOptions.js';

/** Within a scene some waits have no limit of their own. */
const SCENE_LIMIT_MS = 600_000;

const { values } = scriptOptions({
  options: { only: { type: 'string' }, write: { type: 'boolean', default: false } },
});

if (spawnSync('prometheus', ['--version']).error !== undefined) {
  console.error('prometheus is not on the path (Debian: apt-get install prometheus).');
  process.exit(1);
}

const all: Scenes = { ...nodeScenes, ...chainScenes, ...processScenes, ...diskScenes, ...sharedScenes };
const named = Object.entries(all).map(([name, play]) => ({ name, play }));
const scenes = chosenFrom(named, values.only, (name, only) => new RegExp(only).test(name));
const outcomes: Outcome[] = [];
const failures: string[] = [];

await withCleanup(async () => {
  const prometheus = await PrometheusServer.start(scratchDirectory());
  try {
    const beganAt = Date.now() / 1_000;
    for (const scene of scenes) await play(scene, prometheus);
    if (values.only === undefined) failures.push(...(await checkDashboard(prometheus, beganAt)));
  } finally {
    await prometheus.close();
  }
});

if (values.only === undefined) {
  const provoked = new Set(outcomes.map(({ alert }) => alert));
  for (const { alert } of alertRules()) if (!provoked.has(alert)) failures.push(`${alert} was not provoked`);
}
if (values.write) await writePage(outcomes);
for (const failure of failures) console.error(failure);
conclude({ runs: outcomes.length, failures: failures.length, unit: 'alerts fired and cleared' });

async function play(scene: (typeof named)[number], prometheus: PrometheusServer): Promise<void> {
  let stage: Stage | undefined;
  try {
    await withCleanup(async () => {
      stage = new Stage(prometheus);
      await orAborted(scene.play(stage), AbortSignal.timeout(SCENE_LIMIT_MS));
    });
  } catch (error) {
    failures.push(`${scene.name}: ${textOf(error)}`);
    console.error(failures.at(-1));
  }
  for (const outcome of stage?.outcomes ?? []) {
    const { alert, beside, clearedSeconds, firedSeconds } = outcome;
    const others = beside.length === 0 ? '' : ` (beside it ${beside.join(', ')})`;
    console.log(
      `${alert}: fired after ${firedSeconds.toFixed(1)} s, cleared after ${clearedSeconds.toFixed(1)} s${others}`,
    );
  }
  outcomes.push(...(stage?.outcomes ?? []));
}
