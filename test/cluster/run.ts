// Several daemons on one PostgreSQL, and what can happen to them: `npm run test:cluster`. One scene:
// `npm run test:cluster -- --only kill --seed 3`. docs/cluster-testing.md explains it.
//
//     --only SCENE     one of them
//     --seed N         [1]
//     --heights N      of the chain; every scene fills all of it [8200]
//     --report FILE    writes the result as JSON
import { writeFileSync } from 'node:fs';
import { play } from './play.js';
import { scenes } from './scenes.js';
import { World } from './World.js';
import { scriptOptions } from '../support/scriptOptions.js';

const { values } = scriptOptions({
  options: {
    only: { type: 'string' },
    seed: { type: 'string', default: '1' },
    heights: { type: 'string', default: '8200' },
    report: { type: 'string' },
  },
});

const seed = Number(values.seed);
const chosen = scenes.filter(({ name }) => values.only === undefined || name === values.only);
if (chosen.length === 0) {
  console.error(`There is no scene ${values.only}. There are: ${scenes.map(({ name }) => name).join(', ')}.`);
  process.exit(64);
}
const world = await World.open({ seed, heights: Number(values.heights) });
const results: { readonly name: string; readonly failure: string | null; readonly seconds: number }[] = [];
try {
  for (const scene of chosen) {
    const { failure, remark, seconds } = await play(world, scene, seed);
    results.push({ name: scene.name, failure: failure ?? null, seconds });
    const outcome = failure === undefined ? (remark ?? 'kept') : `FAILED: ${failure}`;
    console.log(`${scene.name.padEnd(10)} ${String(seconds).padStart(4)} s  ${scene.what}: ${outcome}`);
    if (failure !== undefined) console.log(`  npm run test:cluster -- --only ${scene.name} --seed ${seed}`);
  }
} finally {
  await world.close();
}
const failures = results.filter(({ failure }) => failure !== null).length;
console.log(`${results.length} scenes, ${failures} failed`);
if (values.report !== undefined) {
  writeFileSync(values.report, `${JSON.stringify({ seed, failures, scenes: results }, undefined, 2)}\n`);
}
process.exitCode = failures > 0 ? 1 : 0;
