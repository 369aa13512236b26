import { describe, expect, it } from 'vitest';
import { play } from '../cluster/play.js';
import { scenes } from '../cluster/scenes.js';
import { World } from '../cluster/World.js';
import { atEnd } from '../support/cleanup.js';

describe('several daemons on one database', () => {
  // The sample of `npm run test:cluster`.
  it('keep one index while workers are killed', { timeout: 300_000 }, async () => {
    const world = await World.open({ seed: 5, heights: 4_200 });
    atEnd(() => world.close());
    const scene = scenes.find(({ name }) => name === 'kill');
    expect(scene && (await play(world, scene, 5))).toMatchObject({ failure: undefined });
  });
});
