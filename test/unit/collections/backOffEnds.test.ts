import { beforeEach, describe, expect, it } from 'vitest';
import { asking, failing, honestOf, makeCollection, sources } from './sourceHarness.js';
import type { FakeNode, HeightsRequester, MadeCollection } from './sourceHarness.js';

let { clock, headMoves, sink, window, a, b } = sources();
let requests: HeightsRequester;

const made: MadeCollection[] = Array.from({ length: 12 }, (_, place) => makeCollection(`paused ${place}`, 1));
const ids = made.map(({ id }) => id);

beforeEach(() => {
  ({ clock, headMoves, sink, window, a, b } = sources());
  // One call for one collection: the other way is not the question here.
  for (const node of [a, b]) node.unknown.add('GetCollectionByID');
  requests = asking({ clock, sink, window }, a);
});

const honest = honestOf(...made);

async function intoAPause(node: FakeNode): Promise<void> {
  await clock.advance(28_000);
  expect(node.calls.at(-1)!.atMs).toBeLessThan(clock.monotonic() - 1_000);
}

describe('a pending back-off ends', () => {
  it('when a new head shows that the node is back, for the lowest height, and with its success for all', async () => {
    a.onCall = failing('unavailable');
    for (const [place, id] of ids.slice(0, 6).entries()) requests.request(1 + place, [id]);
    await intoAPause(a);
    a.onCall = honest;
    headMoves();
    await clock.settle();
    expect(new Set(sink.ids)).toEqual(new Set(ids.slice(0, 6)));
  });

  it('when the node gives another collection', async () => {
    a.onCall = failing('deadline');
    for (const [place, id] of ids.slice(0, 6).entries()) requests.request(1 + place, [id]);
    await intoAPause(a);
    a.onCall = honest;
    requests.request(20, [ids[6]!]);
    await clock.settle();
    expect(sink.ids).toHaveLength(7);
  });

  it('not for what failed elsewhere or was denied, when a node answers again', async () => {
    requests = asking({ clock, sink, window }, a, b);
    a.onCall = (call) => (call.id === ids[0] ? call.fail('not_found') : call.fail('unavailable'));
    b.onCall = failing('not_found');
    requests.request(1, [ids[0]!]);
    requests.request(2, [ids[1]!]);
    await clock.advance(28_000);
    const before = a.calls.length + b.calls.length;
    a.onCall = (call) => (call.id === ids[2] ? honest(call) : call.fail('not_found'));
    b.onCall = a.onCall;
    requests.request(3, [ids[2]!]);
    await clock.settle();
    expect([...a.calls, ...b.calls].length - before).toBeLessThanOrEqual(2);
  });
});

describe('no storm comes of it', () => {
  it('a head that moves all the time has a node that fails asked for the lowest height alone, once a second', async () => {
    a.onCall = failing('unavailable');
    requests.request(1, ids.slice(0, 2));
    requests.request(2, ids.slice(2));
    await intoAPause(a);
    const before = a.calls.length;
    for (let head = 0; head < 100; head += 1) {
      headMoves();
      await clock.advance(100);
    }
    const asked = a.calls.slice(before);
    expect(asked.slice(0, 2).map(({ id }) => id)).toEqual(ids.slice(0, 2));
    expect(asked.filter(({ id }) => ids.slice(0, 2).includes(id)).length).toBeLessThanOrEqual(2 * 10);
    // Their own pauses of 10 s, no more.
    expect(asked.filter(({ id }) => ids.slice(2).includes(id)).length).toBeLessThanOrEqual(2 * 10);
  });

  it('a collection that a node denies is not asked for more often because the head moves', async () => {
    a.onCall = failing('not_found');
    requests.request(1, [ids[0]!]);
    await intoAPause(a);
    const before = a.calls.length;
    for (let head = 0; head < 90; head += 1) {
      headMoves();
      await clock.advance(100);
    }
    expect(a.calls.length - before).toBeLessThanOrEqual(1);
  });

  it('siblings that come one after the other end a pause once a second at most', async () => {
    a.onCall = (call) => (call.id === ids[0] ? call.fail('not_found') : honest(call));
    requests.request(1, [ids[0]!]);
    await intoAPause(a);
    const before = a.calls.length;
    for (const id of ids.slice(1)) {
      requests.request(1, [id]);
      await clock.advance(50);
    }
    expect(a.calls.slice(before).filter(({ id }) => id === ids[0])).toHaveLength(1);
  });
});
