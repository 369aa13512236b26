import { describe, expect, it } from 'vitest';
import { campaign } from '../fuzz/campaign.js';
import { END_LIMIT_MS, START_LIMIT_MS, STUCK_FACTOR, StuckWatch, WorkerState } from '../fuzz/StuckWatch.js';
import { targets } from '../fuzz/targets.js';
import type { FuzzTarget } from '../fuzz/target.js';

/** Here other tests share the machine. */
const HANG_MS = 15_000;

/** A sample of what `npm run test:fuzz` feeds in by the million. Processes are left to it. */
const samples: Readonly<Record<string, number>> = {
  wire: 6_000,
  'full-block': 2_000,
  'protocol-state': 1_000,
  'proof-document': 500,
  status: 800,
  endpoint: 2_000,
  configuration: 500,
  table: 500,
  'command-line': 600,
  http: 500,
  webSocket: 500,
  grpc: 800,
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

  describe('whose worker gets no further', () => {
    const HANG_MS = 100;
    const watchOver = (state: WorkerState) => new StuckWatch({ hangMs: HANG_MS, nowMs: 0 }, state);

    it('leaves it the time of its start before the first input counts', () => {
      const state = new WorkerState();
      const watch = watchOver(state);
      const readyMs = START_LIMIT_MS - 1;
      expect(watch.problem(readyMs)).toBeUndefined();
      state.feeding(0);
      expect(watch.problem(readyMs + 1)).toBeUndefined();
      expect(watch.problem(readyMs + HANG_MS * STUCK_FACTOR)).toBeUndefined();
      expect(watch.problem(readyMs + HANG_MS * STUCK_FACTOR + 2)).toBe('it never ends');
    });

    it('counts each input by itself, however many there were', () => {
      const state = new WorkerState();
      const watch = watchOver(state);
      for (let index = 0; index < 50; index += 1) {
        state.feeding(index);
        expect(watch.problem(index * HANG_MS * STUCK_FACTOR)).toBeUndefined();
      }
      expect(watch.problem(50 * HANG_MS * STUCK_FACTOR + 1)).toBe('it never ends');
      expect(state.index).toBe(49);
    });

    it('says of one that never starts or never ends that no input is to report', () => {
      const state = new WorkerState();
      const watch = watchOver(state);
      expect(watch.problem(START_LIMIT_MS + 1)).toBe('the target was never ready');
      state.feeding(3);
      expect(watch.problem(START_LIMIT_MS + 2)).toBeUndefined();
      state.ending();
      expect(watch.problem(START_LIMIT_MS + 3)).toBeUndefined();
      expect(watch.problem(START_LIMIT_MS + 3 + END_LIMIT_MS)).toBeUndefined();
      expect(watch.problem(START_LIMIT_MS + 4 + END_LIMIT_MS)).toBe('the target never closed');
    });
  });

  it('tells of each input before it is fed in, and of the end after the last', async () => {
    const told: string[] = [];
    const target = broken(() => {
      told.push('open');
      return session((index) => {
        told.push(`fed ${index}`);
        return 'accepted';
      });
    });
    await campaign(target, {
      ...{ seed: 1, firstIndex: 0, inputs: 2 },
      onInput: (index) => told.push(`input ${index}`),
      onLastInput: () => told.push('last'),
    });
    expect(told).toEqual(['open', 'input 0', 'fed 0', 'input 1', 'fed 1', 'last']);
  });
});
