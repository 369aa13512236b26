import { describe, expect, it } from 'vitest';
import { campaign } from '../fuzz/campaign.js';
import { targets } from '../fuzz/targets.js';
import type { FuzzTarget } from '../fuzz/target.js';

/** Here other tests share the machine. */
const HANG_MS = 15_000;

/** A sample of what `npm run test:fuzz` feeds in by the million. Processes are left to it. */
const samples: Readonly<Record<string, number>> = {
  wire: 3_000,
  'full-block': 1_000,
  'protocol-state': 500,
  'proof-document': 300,
  status: 400,
  endpoint: 1_000,
  configuration: 300,
  table: 300,
  'command-line': 300,
  http: 300,
  webSocket: 300,
  grpc: 400,
};

describe('whatever comes in', () => {
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
});

describe('the fuzzer', () => {
  const broken = (run: FuzzTarget['open']): FuzzTarget => ({
    name: 'broken',
    share: 1,
    concurrency: 1,
    open: run,
  });
  const session = (run: (index: number) => string | Promise<string>) => {
    let index = 0;
    return Promise.resolve({ run: () => run(index++), close: () => Promise.resolve() });
  };
  const find = async (run: (index: number) => string | Promise<string>) => {
    const target = broken(() => session(run));
    return (await campaign(target, { seed: 1, firstIndex: 0, inputs: 9, hangMs: 300 })).finding;
  };

  it('finds an error, a rejection, a late answer and one that never comes, and names the case', async () => {
    const at7 = (fault: () => string | Promise<string>) => (index: number) =>
      index >= 7 ? fault() : 'accepted';
    expect(await find(at7(() => 'accepted'))).toBeUndefined();
    const faults: (() => string | Promise<string>)[] = [
      () => {
        throw new TypeError('a bug');
      },
      () => Promise.reject(new TypeError('a bug')),
      () => new Promise((resolve) => setTimeout(() => resolve('late'), 600)),
      () => new Promise(() => undefined),
    ];
    for (const fault of faults) expect(await find(at7(fault))).toMatchObject({ target: 'broken', index: 7 });
  });

  it('repeats a case exactly', async () => {
    const made: string[] = [];
    const target = broken(() =>
      Promise.resolve({
        run: (choices) => {
          made.push(`${choices.below(2 ** 30)} ${choices.below(2 ** 30)}`);
          return 'accepted';
        },
        close: () => Promise.resolve(),
      }),
    );
    await campaign(target, { seed: 5, firstIndex: 0, inputs: 50 });
    await campaign(target, { seed: 5, firstIndex: 33, inputs: 1 });
    expect(new Set(made.slice(0, 50)).size).toBe(50);
    expect(made[50]).toBe(made[33]);
  });
});
