// Several daemons on one PostgreSQL, and what can happen to them: `npm run test:cluster`. One scene:
// `npm run test:cluster -- --only kill --seed 3`. docs/cluster-testing.md explains it.
//
//     --only SCENE     one of them
//     --seed N         [1]
//     --heights N      of the chain; every scene fills all of it [8200]
//     --report FILE    writes the result as JSON
import { chosenFrom, conclude, playEach, wholeNumber } from '../support/campaign.js';
import { scriptOptions } from '../support/scriptOptions.js';
import { play } from './play.js';
import { scenes as all } from './scenes.js';
import { World } from './World.js';

const { values } = scriptOptions({
  options: {
    only: { type: 'string' },
    seed: { type: 'string', default: '1' },
    heights: { type: 'string', default: '8200' },
    report: { type: 'string' },
  },
});

const seed = wholeNumber('seed', values.seed);
const chosen = chosenFrom(all, values.only);
const world = await World.open({ seed, heights: wholeNumber('heights', values.heights) });
const scenes = await playEach(chosen, (scene) => play(world, scene, seed), {
  again: ({ name }) => `npm run test:cluster -- --only ${name} --seed ${seed}`,
}).finally(() => world.close());
const failures = scenes.filter(({ failure }) => failure !== null).length;
console.log(`${scenes.length} scenes, ${failures} failed`);
conclude(failures, { file: values.report, of: { seed, failures, scenes } });
