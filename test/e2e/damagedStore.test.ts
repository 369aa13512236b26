import { expect, it } from 'vitest';
import { diskScenarios } from '../disk/scenarios.js';
import { Stage } from '../disk/stage.js';
import { withCleanup } from '../support/cleanup.js';

/** Of all that `npm run test:disk` goes through: what the database itself passes over without a word. */
const sample = {
  'log byte flipped, payload': 'healed',
  'table byte flipped while the daemon serves, and healed by it': 'healed',
};

it('a damaged store is named, heals, and is in the end what it should be', () =>
  withCleanup(async () => {
    const stage = await Stage.set();
    for (const [name, becomes] of Object.entries(sample)) {
      const { outcome } = await withCleanup(() => diskScenarios[name]!(stage));
      expect(outcome, name).toBe(becomes);
    }
  }));
