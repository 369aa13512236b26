import { expect, it } from 'vitest';
import { diskScenarios } from '../disk/scenarios.js';
import { Stage } from '../disk/stage.js';
import { withCleanup } from '../support/cleanup.js';

/** Of all that `npm run test:disk` goes through: what the database itself passes over without a word, and what it refuses. */
const sample = {
  'log byte flipped, payload': 'healed',
  'table truncated': 'refused, repaired',
  'table byte flipped while the daemon serves, and healed by it': 'healed',
};

it('a damaged store is named, heals or is repaired as the message says, and is in the end what it should be', () =>
  withCleanup(async () => {
    const stage = await Stage.set();
    for (const [name, becomes] of Object.entries(sample)) {
      const { outcome } = await withCleanup(() => diskScenarios[name]!(stage));
      expect(outcome, name).toBe(becomes);
    }
  }));
