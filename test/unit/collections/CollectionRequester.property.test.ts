import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Identifier } from '../../../src/flow/index.js';
import { seededRandom } from '../../../src/runtime/random.js';
import { VirtualClock } from '../../support/virtualClock.js';
import {
  FakeNode,
  FakeNodes,
  HeightsRequester,
  KeepingSink,
  makeCollection,
  makeMetrics,
} from './sourceHarness.js';
import type { FakeCall } from './sourceHarness.js';

const POOL = Array.from({ length: 12 }, (_, place) => makeCollection(`pooled ${place}`));
const BODY = new Map(POOL.map(({ id, transactions }) => [id, transactions]));
const FAILURES = ['not_yet', 'not_found', 'unavailable', 'deadline', 'malformed', 'lie'] as const;
const MIN_MS = 250;
const MAX_MS = 10_000;
/** No pause is longer before every node was asked both ways. */
const UNTRIED_MAX_MS = 2_000;
/** A pause lasts so long at least, whatever comes meanwhile. */
const WAKE_AFTER_MS = 1_000;

type Step =
  | { readonly kind: 'request' | 'replace'; readonly height: number; readonly places: readonly number[] }
  | { readonly kind: 'cancel'; readonly height: number }
  | { readonly kind: 'answer'; readonly which: number }
  | { readonly kind: 'fail'; readonly which: number; readonly how: (typeof FAILURES)[number] }
  | { readonly kind: 'wait'; readonly ms: number };

const height = fc.integer({ min: 1, max: 8 });
const which = fc.nat(1_000);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom('request' as const, 'replace' as const),
      height,
      places: fc.array(fc.nat(POOL.length - 1), { maxLength: 5 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel' as const), height }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('answer' as const), which }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('fail' as const), which, how: fc.constantFrom(...FAILURES) }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(4_000) }) },
);

/** What the model knows of one wanted id. */
interface Wish {
  readonly heights: Set<number>;
  failures: number;
  failedAtMs: number;
  /** When another collection came that may have ended the pause. */
  wokenAtMs: number;
}

/**
 * The account that a bystander keeps: who wants what, what is under way, what pauses. Each call is judged at the moment
 * it leaves, by rules that are stated here and nowhere else.
 */
class Model {
  readonly wishes = new Map<Identifier, Wish>();
  /** Calls under way or over since everything last settled, with the height each was sent for. */
  readonly underWay = new Map<FakeCall, number>();
  readonly delivered: Identifier[] = [];
  readonly broken: string[] = [];
  readonly #limits: { readonly concurrency: number; readonly workersPerHeight: number };
  readonly #clock: VirtualClock;

  constructor(
    limits: { readonly concurrency: number; readonly workersPerHeight: number },
    clock: VirtualClock,
  ) {
    this.#limits = limits;
    this.#clock = clock;
  }

  onCall(call: FakeCall): void {
    const wish = this.wishes.get(call.id);
    if (wish === undefined) return void this.broken.push('asked for what nobody wants');
    const height = Math.min(...wish.heights);
    const pending = [...this.underWay].filter(([other]) => !other.isSettled);
    if (pending.some(([{ id }]) => id === call.id)) this.broken.push('asked twice at once');
    if (this.#clock.monotonic() < this.#pausedFromMs(wish)) this.broken.push('asked again too soon');
    for (const [id, lower] of this.wishes) {
      const lowerHeight = Math.min(...lower.heights);
      if (lowerHeight < height && this.#mayBeAsked(id, lower, lowerHeight))
        this.broken.push(`asked at ${height} while ${lowerHeight} was waiting`);
    }
    this.underWay.set(call, height);
    const atNode = pending.filter(([{ node }]) => node === call.node).length;
    if (atNode >= this.#limits.concurrency) this.broken.push('too many calls at one node');
    const atHeight = pending.filter(([, other]) => other === height).length;
    if (atHeight >= this.#limits.workersPerHeight) this.broken.push('too many for one height');
  }

  /** Everybody knows by now what has become of the calls that are over. */
  settled(): void {
    for (const [call] of this.underWay) if (call.isSettled) this.underWay.delete(call);
  }

  failed(id: Identifier): void {
    const wish = this.wishes.get(id);
    if (wish === undefined) return;
    wish.failures += 1;
    wish.failedAtMs = this.#clock.monotonic();
    wish.wokenAtMs = Infinity;
  }

  /** A collection came: its siblings, and what its node failed to give before, may be asked for again. */
  came(): void {
    const nowMs = this.#clock.monotonic();
    for (const wish of this.wishes.values()) {
      if (nowMs >= wish.failedAtMs + WAKE_AFTER_MS) wish.wokenAtMs = Math.min(wish.wokenAtMs, nowMs);
    }
  }

  /** Surely: its longest possible pause is over, nothing of it is under way and its height has a worker to spare. */
  #mayBeAsked(id: Identifier, wish: Wish, height: number): boolean {
    for (const [call] of this.underWay) if (call.id === id) return false;
    if (this.#clock.monotonic() <= this.#pausedUntilMs(wish, 1.25) + 1) return false;
    const workers = [...this.underWay.values()].filter((other) => other === height).length;
    return workers < this.#limits.workersPerHeight;
  }

  /** The earliest moment at which it may be asked for again. */
  #pausedFromMs(wish: Wish): number {
    const pauseMs = Math.min(UNTRIED_MAX_MS, MIN_MS * 2 ** (wish.failures - 1));
    return wish.failures === 0 ? -Infinity : Math.min(wish.failedAtMs + pauseMs, wish.wokenAtMs);
  }

  /** The latest. */
  #pausedUntilMs(wish: Wish, stretch: number): number {
    if (wish.failures === 0) return -Infinity;
    const pauseMs = Math.min(MAX_MS, MIN_MS * 2 ** (wish.failures - 1));
    return wish.failedAtMs + Math.min(MAX_MS, pauseMs * stretch);
  }
}

describe('whatever happens to calls and wishes', () => {
  it('the lowest height goes first, within all bounds, and everything comes in the end', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 80, size: 'max' }),
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 4 }),
        fc.integer(),
        async (steps, concurrency, workersPerHeight, seed) => {
          const clock = new VirtualClock();
          const model = new Model({ concurrency, workersPerHeight }, clock);
          const nodes = ['a:9000', 'b:9000'].map((name) => new FakeNode(name, clock));
          const pool = new FakeNodes(...nodes);
          // Lies must not change the health of nodes here: the model has no opinion on who is asked.
          pool.report = () => undefined;
          const sink = new KeepingSink();
          const fatal: unknown[] = [];
          for (const node of nodes) {
            node.onCall = (call) => model.onCall(call);
            // Nor on how: one collection is one call.
            node.unsupported.add('GetCollectionByID');
          }
          sink.onReceived = ({ collection: { id } }) => {
            if (!model.wishes.delete(id)) model.broken.push('delivered what nobody wants');
            model.delivered.push(id);
            model.came();
          };
          const requester = new HeightsRequester(
            { concurrency, workersPerHeight, backoffMinMs: MIN_MS, backoffMaxMs: MAX_MS },
            {
              ...{ nodes: pool, sink, clock, random: seededRandom(seed), metrics: METRICS },
              onFatal: (error) => void fatal.push(error),
            },
          );
          const pending = (): FakeCall[] => nodes.flatMap((node) => node.pending);

          for (const one of steps) {
            play(one, { requester, model, pending });
            if (one.kind === 'wait') await clock.advance(one.ms);
            else await clock.settle();
            model.settled();
            expect(model.broken).toEqual([]);
            expect(requester.inFlight()).toBe(pending().length);
            expect(clock.pendingTimers).toBeLessThanOrEqual(1);
          }

          const still = [...model.wishes.keys()];
          const before = model.delivered.length;
          while (model.wishes.size > 0) {
            await clock.advanceUntil(() => pending().length > 0, MAX_MS);
            const [call] = pending();
            call!.answer(BODY.get(call!.id));
            await clock.settle();
            model.settled();
          }
          expect(model.broken).toEqual([]);
          expect(model.delivered.slice(before).sort()).toEqual(still.sort());
          expect(requester.inFlight()).toBe(0);
          expect(clock.pendingTimers).toBe(0);
          expect(fatal).toEqual([]);
        },
      ),
      { numRuns: 60 },
    );
  });
});

const METRICS = makeMetrics();

interface World {
  readonly requester: HeightsRequester;
  readonly model: Model;
  readonly pending: () => readonly FakeCall[];
}

function cancel(height: number, { model, requester }: World): void {
  for (const [id, { heights }] of model.wishes) {
    if (heights.delete(height) && heights.size === 0) model.wishes.delete(id);
  }
  requester.cancel(height);
}

function play(one: Step, world: World): void {
  const { requester, model } = world;
  const pending = world.pending();
  switch (one.kind) {
    case 'replace':
    case 'request': {
      if (one.kind === 'replace') cancel(one.height, world);
      const ids = one.places.map((place) => POOL[place]!.id);
      for (const id of ids) {
        const wish = model.wishes.get(id) ?? {
          ...{ heights: new Set<number>(), failures: 0, failedAtMs: 0, wokenAtMs: Infinity },
        };
        wish.heights.add(one.height);
        model.wishes.set(id, wish);
      }
      requester.request(one.height, ids);
      return;
    }
    case 'cancel':
      cancel(one.height, world);
      return;
    case 'answer': {
      const call = pending[one.which % pending.length];
      call?.answer(BODY.get(call.id));
      return;
    }
    case 'fail': {
      const call = pending[one.which % pending.length];
      if (call === undefined) return;
      model.failed(call.id);
      if (one.how === 'lie') call.answer(POOL.find(({ id }) => id !== call.id)!.transactions);
      else call.fail(one.how);
      return;
    }
    case 'wait':
      return;
  }
}
