import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  ApiError,
  machinePace,
  MAX_WAIT_MS,
  MAX_WAITING_REQUESTS,
  ReadGovernor,
  SHARE_AT_HEAD,
} from '../../../src/api/index.js';
import { createMetrics } from '../../../src/observability/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import { WorkedClock } from '../../support/workedClock.js';

const THIRD = 1 / 3;
/** What either lane may spend at once after a quiet time, and what one request of these tests may overspend. */
const SLACK_MS = 12;

/** An index with a head, and readers on a clock on which their work takes time. */
class World {
  readonly clock = new WorkedClock();
  readonly metrics = createMetrics({ version: '', node: '' });
  latest = 100;
  head: number | null = 10_000;
  readonly governor: ReadGovernor;
  /** What requests and the feed have worked. */
  readonly workedMs = { requests: 0, feed: 0 };

  constructor(catchUpShare = THIRD, pace = 1) {
    const range = () => ({ firstIndexed: 1, latestIndexed: this.latest, head: this.head, sealed: null });
    this.governor = new ReadGovernor(
      { catchUpShare, pace },
      { status: { range }, clock: this.clock, metrics: this.metrics },
    );
  }

  /** A request that takes more than all there is to spend. */
  exhaust(): void {
    expect(this.governor.admit('http')).toBeUndefined();
    this.governor.reads(10_000);
  }

  /** One request, its answer in two pieces of work. False: it left. */
  async request(by: 'http' | 'grpc', pieceMs: number): Promise<boolean> {
    const waiting = this.governor.admit(by);
    if (waiting !== undefined && !(await waiting.turn)) return false;
    this.governor.reads();
    for (let piece = 0; piece < 2; piece += 1) {
      await this.governor.work(() => {
        this.clock.work(pieceMs);
        this.workedMs.requests += pieceMs;
      });
      await this.governor.pause();
    }
    return true;
  }

  async requestsForEver(pieceMs: number): Promise<void> {
    while (await this.request('http', pieceMs));
  }

  async feedForEver(eventMs: number): Promise<void> {
    for (;;) {
      await this.governor.feedTurn();
      this.governor.feedReads();
      this.governor.feedWork(() => {
        this.clock.work(eventMs);
        this.workedMs.feed += eventMs;
      });
    }
  }

  async value(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
    const metric = this.metrics.registry.getSingleMetric(`flow_collection_indexer_${name}`)!;
    return (await metric.get()).values
      .filter((value) => !('metricName' in value) || String(value.metricName).endsWith('_count'))
      .filter((value) => Object.entries(labels).every(([key, label]) => value.labels[key] === label))
      .reduce((sum, { value }) => sum + value, 0);
  }
}

const outcome = (turn: Promise<boolean>) => turn.catch((error: unknown) => (error as ApiError).reason);

describe('while all that the chain has is indexed', () => {
  it('readers are held up by nothing: no timer, no promise', () => {
    const world = new World();
    world.latest = 10_000;
    for (let count = 0; count < 1_000; count += 1) {
      expect(world.governor.admit('http')).toBeUndefined();
      world.governor.reads(50);
      expect(world.governor.work(() => 'the answer')).toBe('the answer');
      world.governor.sends(10_000_000);
    }
    expect(world.clock.virtual.pendingTimers).toBe(0);
  });

  it('nor by a share of 100 % at any time', () => {
    const world = new World(1);
    for (let count = 0; count < 1_000; count += 1) {
      expect(world.governor.admit('http')).toBeUndefined();
      world.governor.reads(50);
    }
  });

  it('what was read counts for nothing when the next block comes', () => {
    const world = new World();
    world.latest = 10_000;
    world.exhaust();
    world.head = 10_001;
    expect(world.governor.admit('grpc')).toBeUndefined();
  });
});

describe('while indexing has work to do', () => {
  it('a reader who asks for little does not wait', async () => {
    const world = new World();
    for (let count = 0; count < 200; count += 1) {
      expect(world.governor.admit('http')).toBeUndefined();
      world.governor.reads();
      expect(world.governor.work(() => 'the answer')).toBe('the answer');
      await world.clock.virtual.advance(1);
    }
    expect(world.clock.virtual.pendingTimers).toBe(0);
    expect(await world.value('read_wait_seconds')).toBe(0);
  });

  it.each([
    ['the stated share while it catches up', 0, 10_000, THIRD],
    ['the same before the head is known', 0, null, THIRD],
    ['most of the time close to the head', 9_900, 10_000, SHARE_AT_HEAD],
  ])('a flood is held to %s', async (_, latest, head, share) => {
    const world = new World();
    world.latest = latest;
    world.head = head;
    for (let reader = 0; reader < 50; reader += 1) void world.requestsForEver(1);
    await world.clock.virtual.advance(3_000);
    const allMs = share * world.clock.monotonic();
    expect(world.workedMs.requests).toBeLessThan(allMs + SLACK_MS);
    // The rest of it is what each request costs by itself.
    expect(world.workedMs.requests).toBeGreaterThan(0.75 * allMs);
  });

  it('what cannot be measured is taken to cost as much more as the machine is slower', async () => {
    const admitted = async (pace: number): Promise<number> => {
      const world = new World(THIRD, pace);
      for (let reader = 0; reader < 50; reader += 1) void world.requestsForEver(0.001);
      await world.clock.virtual.advance(3_000);
      return world.workedMs.requests / 0.002;
    };
    const [here, slower] = [await admitted(1), await admitted(4)];
    expect(here / slower).toBeGreaterThan(3.5);
    expect(here / slower).toBeLessThan(4.5);
  });

  it('few readers of large answers are held to the share as well', async () => {
    const world = new World(0.1);
    for (let reader = 0; reader < 2; reader += 1) void world.requestsForEver(20);
    await world.clock.virtual.advance(10_000);
    const allMs = 0.1 * world.clock.monotonic();
    expect(world.workedMs.requests).toBeLessThan(allMs + 60);
    expect(world.workedMs.requests).toBeGreaterThan(0.9 * allMs);
  });

  it('requests and the feed have half of it each, and all of it when the other one rests', async () => {
    const both = new World();
    for (let reader = 0; reader < 50; reader += 1) void both.requestsForEver(1);
    void both.feedForEver(1);
    await both.clock.virtual.advance(3_000);
    const halfMs = (THIRD / 2) * both.clock.monotonic();
    for (const workedMs of [both.workedMs.requests, both.workedMs.feed]) {
      expect(workedMs).toBeLessThan(halfMs + SLACK_MS);
      expect(workedMs).toBeGreaterThan(0.75 * halfMs);
    }

    const feedAlone = new World();
    void feedAlone.feedForEver(1);
    await feedAlone.clock.virtual.advance(3_000);
    const allMs = THIRD * feedAlone.clock.monotonic();
    expect(feedAlone.workedMs.feed).toBeLessThan(allMs + SLACK_MS);
    expect(feedAlone.workedMs.feed).toBeGreaterThan(0.75 * allMs);
  });

  it('whoever waits is served once the index has come to the head', async () => {
    const world = new World(0.01);
    world.exhaust();
    const turns = Array.from({ length: 20 }, () => world.governor.admit('http')!.turn);
    await world.clock.virtual.advance(50);
    expect(await world.value('read_requests_waiting', { interface: 'http' })).toBe(20);
    world.latest = 10_000;
    await world.clock.virtual.advance(100);
    expect(await Promise.all(turns)).toEqual(turns.map(() => true));
    expect(world.clock.virtual.pendingTimers).toBe(0);
  });

  it('a process that stood still does not make readers wait as long', async () => {
    const world = new World();
    void world.governor.work(() => world.clock.work(300));
    const { turn } = world.governor.admit('http')!;
    await world.clock.virtual.advance(1_000);
    expect(await turn).toBe(true);
  });
});

describe('a request over the share', () => {
  it('is served in the order of arrival, whatever interface it came by', async () => {
    const world = new World();
    world.exhaust();
    const served: number[] = [];
    for (let index = 0; index < 100; index += 1) {
      const { turn } = world.governor.admit(index % 3 === 0 ? 'grpc' : 'http')!;
      void turn.then(() => served.push(index));
    }
    await world.clock.virtual.advance(2_000);
    expect(served).toEqual(Array.from({ length: 100 }, (_, index) => index));
    expect(await world.value('read_wait_seconds', { interface: 'grpc' })).toBe(34);
    expect(await world.value('read_wait_seconds', { interface: 'http' })).toBe(66);
  });

  it('comes behind the work of those that were admitted, and is not overtaken by new ones', async () => {
    const world = new World();
    world.exhaust();
    const done: string[] = [];
    void world.governor.admit('http')!.turn.then(() => done.push('first'));
    void Promise.resolve(world.governor.work(() => done.push('piece')));
    // There is time again, and it belongs to those who wait.
    world.clock.work(5_000);
    void world.governor.admit('http')!.turn.then(() => done.push('second'));
    await world.clock.virtual.advance(100);
    expect(done).toEqual(['piece', 'first', 'second']);
  });

  it('is refused when too many wait, until one of them has its turn or leaves', async () => {
    const world = new World();
    world.exhaust();
    const waiting = Array.from({ length: MAX_WAITING_REQUESTS }, () => world.governor.admit('http')!);
    const refused = () => world.governor.admit('grpc');
    expect(refused).toThrow(ApiError);
    expect(refused).toThrow(expect.objectContaining({ code: 503, reason: 'busy' }));
    expect(
      await world.value('read_requests_turned_away_total', { interface: 'grpc', reason: 'queue_full' }),
    ).toBe(2);
    waiting[500]!.leave();
    expect(refused()).toBeDefined();
    expect(refused).toThrow(`at most ${MAX_WAITING_REQUESTS} requests may wait`);
    await world.clock.virtual.advance(1_000);
    expect(await waiting[0]!.turn).toBe(true);
    expect(refused).not.toThrow();
  });

  it('whose caller has gone gives its place up', async () => {
    const world = new World();
    world.exhaust();
    const [first, gone, last] = Array.from({ length: 3 }, () => world.governor.admit('http')!);
    gone!.leave();
    gone!.leave();
    expect(await gone!.turn).toBe(false);
    expect(await world.value('read_requests_waiting')).toBe(2);
    expect(
      await world.value('read_requests_turned_away_total', { interface: 'http', reason: 'caller_left' }),
    ).toBe(1);
    first!.leave();
    last!.leave();
    expect(world.clock.virtual.pendingTimers).toBe(0);
    expect(await world.value('read_requests_waiting')).toBe(0);
  });

  it('does not wait for ever', async () => {
    const world = new World(0.01);
    world.exhaust();
    const early = outcome(world.governor.admit('http')!.turn);
    await world.clock.virtual.advance(MAX_WAIT_MS / 2);
    const late = outcome(world.governor.admit('http')!.turn);
    await world.clock.virtual.advance(MAX_WAIT_MS / 2 + 200);
    expect(await early).toBe('busy');
    expect(await world.value('read_requests_waiting')).toBe(1);
    expect(await world.value('read_requests_turned_away_total', { reason: 'waited_too_long' })).toBe(1);
    await world.clock.virtual.advance(MAX_WAIT_MS);
    expect(await late).toBe('busy');
  });

  it('is refused when the daemon stops, and what was admitted is finished', async () => {
    const world = new World(0.01);
    world.exhaust();
    const refused = outcome(world.governor.admit('http')!.turn);
    const pieces = [1, 2, 3].map((piece) => Promise.resolve(world.governor.work(() => piece)));
    const feed = world.governor.feedTurn();
    await world.clock.virtual.settle();
    world.governor.close();
    await world.clock.virtual.settle();
    expect(await refused).toBe('stopping');
    expect(await Promise.all(pieces)).toEqual([1, 2, 3]);
    await feed;
    expect(world.clock.virtual.pendingTimers).toBe(0);
    world.governor.close();
  });

  it('is told what its own work throws, and no other is', async () => {
    const world = new World();
    world.exhaust();
    const broken = Promise.resolve(
      world.governor.work(() => {
        throw new Error('a bug');
      }),
    );
    const sound = Promise.resolve(world.governor.work(() => 'sound'));
    const told = broken.catch((error: unknown) => error);
    await world.clock.virtual.advance(1_000);
    expect(await told).toEqual(new Error('a bug'));
    expect(await sound).toBe('sound');
  });
});

describe('whatever is asked, left and waited for', () => {
  type Step =
    | { readonly do: 'ask'; readonly count: number; readonly pieceMs: number }
    | { readonly do: 'leave'; readonly who: number }
    | { readonly do: 'wait'; readonly ms: number }
    | { readonly do: 'index'; readonly lag: number };
  const step: fc.Arbitrary<Step> = fc.oneof(
    fc.record({
      do: fc.constant('ask' as const),
      ...{ count: fc.integer({ min: 1, max: 40 }), pieceMs: fc.constantFrom(0, 0.1, 3) },
    }),
    fc.record({ do: fc.constant('leave' as const), who: fc.nat(1_000) }),
    fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(0, 1, 7, 100) }),
    fc.record({ do: fc.constant('index' as const), lag: fc.constantFrom(0, 50, 5_000) }),
  );

  it('everybody who stays is served, in order, and nothing is left behind', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 30 }), async (steps) => {
        const world = new World();
        const all: { leave: () => void; hasLeft: boolean; isServed: boolean | undefined; waited: boolean }[] =
          [];
        const served: number[] = [];
        const ask = (pieceMs: number): void => {
          const waiting = world.governor.admit('http');
          const one = {
            leave: () => waiting?.leave(),
            ...{ hasLeft: false, isServed: undefined as boolean | undefined, waited: waiting !== undefined },
          };
          const index = all.push(one) - 1;
          const serve = async (): Promise<void> => {
            one.isServed = waiting === undefined || (await waiting.turn);
            if (!one.isServed) return;
            served.push(index);
            await world.governor.work(() => world.clock.work(pieceMs));
          };
          void serve();
        };
        for (const now of steps) {
          if (now.do === 'ask') for (let count = 0; count < now.count; count += 1) ask(now.pieceMs);
          else if (now.do === 'wait') await world.clock.virtual.advance(now.ms);
          else if (now.do === 'index') world.latest = 10_000 - now.lag;
          else {
            const one = all[now.who % Math.max(1, all.length)];
            one?.leave();
            if (one?.waited === true && one.isServed === undefined) one.hasLeft = true;
          }
          await world.clock.virtual.turn();
        }
        await world.clock.virtual.advance(MAX_WAIT_MS - 1);
        expect(all.map(({ isServed }) => isServed)).toEqual(all.map(({ hasLeft }) => !hasLeft));
        expect(served).toEqual([...served].sort((left, right) => left - right));
        expect(world.clock.virtual.pendingTimers).toBe(0);
        expect(await world.value('read_requests_waiting')).toBe(0);
      }),
      { numRuns: 100 },
    );
  });
});

describe('the pace of the machine', () => {
  /** A clock on which each run takes so long. */
  const clockOf = (...runsMs: readonly number[]) => {
    let nowMs = 0;
    let looks = 0;
    return {
      monotonic: () => {
        if (looks % 2 === 1) nowMs += runsMs[((looks - 1) / 2) % runsMs.length] ?? 0;
        looks += 1;
        return nowMs;
      },
    };
  };

  it('is 1 on the machine that the costs were measured on, and 2 on one that takes twice as long', () => {
    expect(machinePace({ clock: clockOf(0.9) })).toBeCloseTo(1);
    expect(machinePace({ clock: clockOf(1.8) })).toBeCloseTo(2);
  });

  it('is not told by runs that were interrupted', () => {
    expect(machinePace({ clock: clockOf(0.9, 0.9, 500) })).toBeCloseTo(1);
  });

  it('neither frees readers of all cost nor shuts them out', () => {
    expect(machinePace({ clock: clockOf(0) })).toBe(0.1);
    expect(machinePace({ clock: clockOf(60_000) })).toBe(10);
    expect(machinePace({ clock: systemClock })).toBeGreaterThanOrEqual(0.1);
  });
});
