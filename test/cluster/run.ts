// Several daemons on one PostgreSQL, and what can happen to them: `npm run test:cluster`. One scene:
// `npm run test:cluster -- --only kill --seed 3`. docs/cluster-testing.md explains it.
//
//     --only SCENE     one of them
//     --seed N         [1]
//     --heights N      of the chain; every scene fills all of it [8200]
//     --report FILE    writes the result as JSON
import { chosenFrom, conclude, outcomeOf, playEach, wholeNumber } from '../support/campaign.js';
import { withCleanup } from '../support/cleanup.js';
import { scriptOptions } from '../support/scriptOptions.js';
import { Dice } from '../simulation/Dice.js';
import { Cluster } from './Cluster.js';
import { scenes as all, type Scene } from './scenes.js';
import { openWorld, type World } from './World.js';

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
await withCleanup(async () => {
  const world = await openWorld(seed, wholeNumber('heights', values.heights));
  const scenes = await playEach(chosen, (scene) => withCleanup(() => play(world, scene)), {
    again: ({ name }) => `npm run test:cluster -- --only ${name} --seed ${seed}`,
  });
  conclude(outcomeOf(scenes, 'scenes'), values.report, { seed, scenes });
});

/** Plays a scene on a cluster of its own, and judges what it comes to: resolves with a remark, rejects with what was broken. */
async function play(world: World, scene: Scene): Promise<string> {
  const cluster = await Cluster.on(world);
  try {
    const remark = await scene.play(cluster, new Dice(seed, scene.name));
    await cluster.judge();
    return `${scene.what}: ${remark ?? 'kept'}`;
  } finally {
    world.devnet.node.setFaults([]);
    await cluster.close();
  }
}
