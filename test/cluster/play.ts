import { Dice } from '../simulation/Dice.js';
import { Cluster } from './Cluster.js';
import type { Scene } from './scenes.js';
import type { World } from './World.js';

/** Plays a scene on a cluster of its own, and judges what it comes to: resolves with a remark, rejects with what was broken. */
export async function play(world: World, scene: Scene, seed: number): Promise<string> {
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
