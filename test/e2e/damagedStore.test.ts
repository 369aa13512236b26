import { describe, expect, it } from 'vitest';
import { diskScenarios } from '../disk/scenarios.js';
import { Stage } from '../disk/stage.js';
import { withCleanup } from '../support/cleanup.js';

/** Of all that `npm run test:disk` goes through: the damage that the database itself would pass over without a word. */
const sample = ['log byte flipped, payload'];

describe('a damaged store', () => {
  it('is refused by name, mended as the message says, and in the end what it should be', () =>
    withCleanup(async () => {
      const stage = await Stage.set();
      for (const name of sample) {
        const scenario = diskScenarios.find((each) => each.name === name);
        if (scenario === undefined) return expect.unreachable(`there is no scenario ${name}`);
        const { outcome } = await withCleanup(() => scenario.run(stage));
        expect(outcome, name).toBe('refused, repaired');
      }
    }));
});
