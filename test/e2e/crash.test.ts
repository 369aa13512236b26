import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Lane } from '../crash/Lane.js';
import { play } from '../crash/stories.js';

/**
 * A sample; `npm run test:crash` dies hundreds of times (docs/crash-testing.md). It stands for
 * those steps at which a process leaves something behind that the next one must deal with.
 */
const sample: readonly (readonly [name: string, seed: number])[] = [
  ['rewind.batch.durable', 1],
  ['anew.called', 1],
];

describe('a process that is killed', () => {
  let lane: Lane;
  beforeAll(async () => {
    lane = await Lane.open();
  });
  afterAll(() => lane.close());

  it.each(sample)('at %s loses nothing, and is made good by the next start', async (name, seed) => {
    expect(await play(lane, name, seed)).toBe(1);
  });
});
