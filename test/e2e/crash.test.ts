import { afterAll, beforeAll, expect, it } from 'vitest';
import { Lane } from '../crash/Lane.js';
import { play } from '../crash/stories.js';

/** Steps at which a process leaves something behind for the next one; `npm run test:crash` has hundreds (docs/crash-testing.md). */
const sample: readonly (readonly [name: string, seed: number])[] = [
  ['rewind.batch.durable', 1],
  ['anew.called', 1],
];

let lane: Lane;
beforeAll(async () => {
  lane = await Lane.open();
});
afterAll(() => lane.close());

it.each(sample)('at %s loses nothing, and is made good by the next start', async (name, seed) => {
  expect(await play(lane, name, seed)).toBe(1);
});
