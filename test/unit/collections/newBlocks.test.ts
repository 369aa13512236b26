import { beforeEach, expect, it } from 'vitest';
import type { Identifier } from '../../../src/flow/index.js';
import type { Random } from '../../../src/runtime/index.js';
import { seededRandom } from '../../support/seededRandom.js';
import { asking, honestOf, makeCollection, sources } from './sourceHarness.js';
import type { FakeCall, HeightsRequester, MadeCollection } from './sourceHarness.js';

const BLOCK_MS = 800;

let { clock, ends, sink, window, a, b } = sources(0, 0);
let hasAtMs: Map<string, number>;
let made: Map<Identifier, MadeCollection>;

beforeEach(() => {
  ({ clock, ends, sink, window, a, b } = sources(0, 0));
  hasAtMs = new Map();
  made = new Map();
  for (const node of [a, b]) node.onCall = (call) => serve(call);
});

/** Collections come some time after their block; before that the node says that it has yet to fetch them. */
function serve(call: FakeCall): void {
  const collection = made.get(call.id);
  if (collection === undefined) return;
  const hasIt = clock.monotonic() >= (hasAtMs.get(`${call.node} ${call.id}`) ?? Infinity);
  clock.setTimer(1, () => (hasIt ? call.answer(collection.transactions) : call.fail('not_yet')));
}

/** A new block with one collection that each node has so long afterwards. */
function newBlock(requests: HeightsRequester, lagsMs: Readonly<Record<string, number>>): MadeCollection {
  ends.head += 1;
  const collection = makeCollection(`of ${ends.head}`, 1);
  made.set(collection.id, collection);
  for (const [node, lagMs] of Object.entries(lagsMs))
    hasAtMs.set(`${node} ${collection.id}`, clock.monotonic() + lagMs);
  requests.request(ends.head, [collection.id]);
  return collection;
}

async function follow(
  requests: HeightsRequester,
  blocks: number,
  lags: () => Readonly<Record<string, number>>,
): Promise<{ readonly lateMs: number[]; readonly callsEach: number }> {
  const lateMs: number[] = [];
  const before = a.calls.length + b.calls.length;
  sink.onReceived = ({ collection: { id }, receivedAtMs }) => {
    const hadAtMs = Math.min(...[a, b].map(({ name }) => hasAtMs.get(`${name} ${id}`) ?? Infinity));
    lateMs.push(receivedAtMs - hadAtMs);
  };
  for (let block = 0; block < blocks; block += 1) {
    newBlock(requests, lags());
    await clock.advance(BLOCK_MS);
  }
  expect(lateMs).toHaveLength(blocks);
  lateMs.sort((one, other) => one - other);
  return { lateMs, callsEach: (a.calls.length + b.calls.length - before) / blocks };
}

const at = (sorted: readonly number[], share: number): number =>
  sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN;

it('are asked for again soon, a few times, before the pauses are those of any other', async () => {
  const requests = asking({ clock, sink, window }, a);
  newBlock(requests, {});
  await clock.advance(3_000);
  const pauses = a.calls.slice(1).map((call, place) => call.atMs - a.calls[place]!.atMs - 1);
  const soon = pauses.slice(0, 14);
  expect(soon.slice(0, 4).every((pause) => pause >= 20 && pause <= 60)).toBe(true);
  expect(soon.toSorted((one, other) => one - other)).toEqual(soon);
  expect(Math.max(...soon)).toBe(80);
  expect(pauses.slice(14, 16)).toEqual([250, 500]);
});

it.each([30_000, 50_000])(
  'are there soon after their node has them, though it had said for %d ms that it has yet to fetch them',
  async (outageMs) => {
    a.unknown.add('GetCollectionByID');
    const requests = asking({ clock, sink, window }, a);
    const hasThemAtMs = clock.monotonic() + outageMs;
    let awaited = 0;
    const lateMs: number[] = [];
    sink.onReceived = ({ receivedAtMs }) => lateMs.push(receivedAtMs - hasThemAtMs);
    for (; clock.monotonic() < hasThemAtMs; awaited += 1) {
      newBlock(requests, { 'a:9000': Math.max(0, hasThemAtMs - clock.monotonic()) });
      await clock.advance(BLOCK_MS);
    }
    // Each is asked for a few times at once, and once a second while it is the lowest.
    const early = awaited * 14;
    expect(a.calls.length).toBeLessThan(early + outageMs / 1_000 + awaited * 8);
    for (let block = 0; block < 4; block += 1) {
      newBlock(requests, { 'a:9000': 0 });
      await clock.advance(BLOCK_MS);
    }
    expect(lateMs).toHaveLength(awaited + 4);
    expect(Math.max(...lateMs.slice(0, awaited))).toBeLessThanOrEqual(1_500);
  },
);

it('are asked for when they usually come, learned from what came before, in few calls', async () => {
  const random = seededRandom(7);
  const requests = asking({ clock, sink, window }, a);
  // As measured on a network: half of them within 105 ms, nine of ten within 242 ms.
  const lag = (): number => 46 - 85 * Math.log(1 - random.next());
  await follow(requests, 100, () => ({ 'a:9000': lag() }));
  const { lateMs, callsEach } = await follow(requests, 1_000, () => ({ 'a:9000': lag() }));
  expect(at(lateMs, 0.5)).toBeLessThanOrEqual(35);
  expect(at(lateMs, 0.99)).toBeLessThanOrEqual(90);
  // A block is as late as its latest collection: of many, hardly one may be left to the long pauses.
  expect(at(lateMs, 0.999)).toBeLessThanOrEqual(100);
  expect(callsEach).toBeLessThanOrEqual(2.5);
});

it('come as soon with a node beside theirs that takes its time to answer, in about as many calls', async () => {
  const lags = (random: Random) => () => {
    const lagMs = (): number => 46 - 85 * Math.log(1 - random.next());
    return { 'a:9000': lagMs(), 'b:9000': lagMs() };
  };
  await follow(asking({ clock, sink, window }, a), 60, lags(seededRandom(1)));
  const alone = await follow(asking({ clock, sink, window }, a), 100, lags(seededRandom(2)));
  Object.assign(b, {
    latencyMs: 100,
    onCall: (call: FakeCall) => void clock.setTimer(99, () => serve(call)),
  });
  const requests = asking({ clock, sink, window }, a, b);
  await follow(requests, 60, lags(seededRandom(1)));
  const both = await follow(requests, 100, lags(seededRandom(2)));
  expect(at(both.lateMs, 0.5)).toBeLessThanOrEqual(at(alone.lateMs, 0.5) + 30);
  expect(at(both.lateMs, 0.95)).toBeLessThanOrEqual(at(alone.lateMs, 0.95) + 60);
  expect(both.callsEach).toBeLessThanOrEqual(alone.callsEach + 0.5);
});

it('are asked for at once again when the node has come to have them at once', async () => {
  const requests = asking({ clock, sink, window }, a);
  await follow(requests, 50, () => ({ 'a:9000': 200 }));
  await follow(requests, 400, () => ({ 'a:9000': 0 }));
  const { lateMs, callsEach } = await follow(requests, 20, () => ({ 'a:9000': 0 }));
  expect(at(lateMs, 1)).toBeLessThanOrEqual(10);
  expect(callsEach).toBe(1);
});

it('are asked for at once while nothing is known, and always where blocks are not new, and leave nothing behind when they are no longer wanted', async () => {
  const requests = asking({ clock, sink, window }, a);
  const first = newBlock(requests, { 'a:9000': 0 });
  expect(a.calls.map(({ id }) => id)).toEqual([first.id]);
  await clock.advance(BLOCK_MS);
  await follow(requests, 50, () => ({ 'a:9000': 150 }));
  const old = makeCollection('of long ago', 1);
  made.set(old.id, old);
  const before = a.calls.length;
  requests.request(ends.head - 3, [old.id]);
  expect(a.calls.slice(before).map(({ id }) => id)).toEqual([old.id]);
  const fresh = newBlock(requests, { 'a:9000': 150 });
  expect(a.calls.slice(before).map(({ id }) => id)).not.toContain(fresh.id);
  await clock.advance(1);
  for (const height of [ends.head - 4, ends.head]) requests.cancelAt(height);
  expect(clock.pendingTimers).toBe(0);
});

it.each(['GetCollectionByID', 'GetTransaction'] as const)(
  'come from a slower node where the quick one has no full collections, and fails by %s',
  async (method) => {
    for (const node of [a, b]) {
      node.unknown.add('GetFullCollectionByID');
      node.onCall = (call) =>
        node === a && call.method === method ? call.fail('internal') : honestOf(...made.values())(call);
    }
    Object.assign(b, { latencyMs: 100 });
    const requests = asking({ clock, sink, window }, a, b);
    for (let block = 0; block < 10; block += 1) {
      const { id } = newBlock(requests, {});
      await clock.advance(BLOCK_MS);
      expect(sink.ids).toContain(id);
    }
    // Now and then it is tried, as it may be well again.
    expect(a.calls.length).toBeLessThan(10);
  },
);

it('come soon from the node that has them where one that denies them answers sooner', async () => {
  Object.assign(b, { latencyMs: 100 });
  const requests = asking({ clock, sink, window }, a, b);
  for (let block = 0; block < 300; block += 1) {
    const { id } = newBlock(requests, { 'b:9000': 0 });
    await clock.advance(300);
    expect(sink.ids).toContain(id);
  }
});
