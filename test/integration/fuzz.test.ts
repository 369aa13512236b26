import { expect, it } from 'vitest';
import { campaign } from '../fuzz/campaign.js';
import { targets } from '../fuzz/targets.js';

/** Here other tests share the machine. */
const HANG_MS = 15_000;

/** A sample of what `npm run test:fuzz` feeds in by the million. */
const samples: Readonly<Record<string, number>> = {
  wire: 1_500,
  'full-block': 500,
  'protocol-state': 250,
  'proof-document': 150,
  status: 200,
  endpoint: 500,
  configuration: 300,
  table: 300,
  'command-line': 300,
  http: 200,
  webSocket: 200,
  grpc: 250,
};

it.each(targets.filter(({ name }) => name in samples).map((target) => [target.name, target] as const))(
  '%s: is taken or refused in words, at once, and breaks nothing',
  async (name, target) => {
    const inputs = samples[name] ?? 0;
    const { tally, finding } = await campaign(target, { seed: 2, firstIndex: 0, inputs, hangMs: HANG_MS });
    expect(finding).toBeUndefined();
    expect(tally.inputs).toBe(inputs);
    // Both happen, or the inputs are none that say anything.
    expect(tally.outcomes.size).toBeGreaterThan(3);
  },
);
