import { Dice } from '../simulation/Dice.js';
import { Cluster } from './Cluster.js';
import type { Scene } from './scenes.js';
import type { World } from './World.js';

export interface Played {
  /** Which promise was broken, and how. */
  readonly failure: string | undefined;
  readonly remark: string | undefined;
  readonly seconds: number;
}

/** Plays a scene on a cluster of its own, and judges what it comes to. */
export async function play(world: World, scene: Scene, seed: number): Promise<Played> {
  const startedAtMs = performance.now();
  const cluster = await Cluster.on(world);
  let failure: string | undefined;
  let remark: string | undefined;
  try {
    remark = await scene.play(cluster, new Dice(seed, scene.name));
    await cluster.judge();
  } catch (error) {
    failure = error instanceof Error ? error.message : String(error);
  } finally {
    world.devnet.node.setFaults([]);
    await cluster.close();
  }
  return { failure, remark, seconds: Math.round((performance.now() - startedAtMs) / 1_000) };
}
