import { Dice } from '../simulation/Dice.js';
import { failpointOf } from './failpoints.js';
import type { Lane } from './Lane.js';
import { randomKills } from './randomKills.js';
import { storyAt } from './stories.js';
import { Witness } from './Witness.js';

export function play(lane: Lane, name: string, seed: number): Promise<number> {
  const story = randomKills.find((each) => each.name === name)?.story ?? storyAt(failpointOf(name));
  return lane.withDirectory((dataDir) =>
    story({ lane, dataDir, dice: new Dice(seed, name), witness: new Witness() }),
  );
}
