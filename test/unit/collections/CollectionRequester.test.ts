import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { endpointSlots } from '../../../src/collections/index.js';
import type { CollectionRequesterDependencies } from '../../../src/collections/requester/CollectionRequester.js';
import type { CollectionRequesterOptions } from '../../../src/collections/requester/CollectionRequester.js';
import type { Identifier } from '../../../src/flow/index.js';
import { NodesInMemory, counted } from '../../support/index.js';
import { failing, HeightsRequester, honestOf, makeCollection, sources } from './sourceHarness.js';
import type { FakeNode, MadeCollection } from './sourceHarness.js';

let { clock, sink, window, waiters, logger, metrics, a, b, fatal } = sources();

beforeEach(() => {
  ({ clock, sink, window, waiters, logger, metrics, a, b, fatal } = sources());
});

function requester(
  options: Partial<CollectionRequesterOptions> = {},
  more: Partial<CollectionRequesterDependencies> = {},
): HeightsRequester {
  const nodes = new NodesInMemory<FakeNode>([a]);
  const onFatal = (error: unknown): void => void fatal.push(error);
  return new HeightsRequester(
    { holdBackMs: 500, ...options },
    { nodes, sink, window, clock, logger, metrics, onFatal, ...more },
  );
}

const many = (count: number, name = 'c'): MadeCollection[] =>
  Array.from({ length: count }, (_, place) => makeCollection(`${name} ${place}`));
const idsOf = (collections: readonly MadeCollection[]) => collections.map(({ id }) => id);
const [one, two, three] = many(3, 'named') as [MadeCollection, MadeCollection, MadeCollection];

it('asking: keeps a slot for the lowest height while calls of higher ones hang', async () => {
  const requests = requester({ concurrency: 3 }).request(1, [one.id]);
  for (const [place, { id }] of many(5).entries()) requests.request(2 + place, [id]);
  expect(a.pending).toHaveLength(3);
  a.pending[0]!.fail('not_found');
  await clock.settle();
  expect(a.pending).toHaveLength(2);
  await clock.advance(250);
  expect(a.pending.at(-1)!.id).toBe(one.id);
});

it('asking: asks for the lowest height first, with so many workers for each, and for no collection twice at once', async () => {
  const [c0, c1, both, c3, c4, c5] = idsOf(many(6)) as [Identifier, ...Identifier[]];
  const requests = requester({ concurrency: 5, workersPerHeight: 2 });
  requests.request(2, [c0, c1!, both!]);
  requests.request(1, [both!, c3!, c4!]);
  requests.request(3, [c5!]);
  expect(a.calls.map(({ id }) => id)).toEqual([c0, c1, both, c3, c5]);
  a.calls[1]!.fail('not_found');
  a.calls[3]!.fail('not_found');
  await clock.settle();
  expect(a.calls.slice(5).map(({ id }) => id)).toEqual([c4]);
  requests.cancelAt(1);
  await clock.advance(250);
  expect(a.pending.map(({ id }) => id).toSorted()).toEqual([c0, c1, both, c5].toSorted());
  const calls = a.calls.length;
  requests.cancelAt(2);
  await clock.advance(60_000);
  expect([a.calls.length, a.pending.map(({ id }) => id)]).toEqual([calls, [c5]]);
});

describe('retrying', () => {
  it('pauses ever longer, never longer than the longest pause, and after a success as briefly as at first', async () => {
    const requests = requester();
    a.unknown.add('GetCollectionByID');
    a.onCall = failing('not_found');
    requests.request(1, [one.id]);
    await clock.advance(60_000);
    const pauses = a.calls.slice(1).map(({ atMs }, place) => atMs - a.calls[place]!.atMs);
    expect(pauses.slice(0, 8)).toEqual([250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    a.onCall = honestOf(one);
    await clock.advance(10_000);
    a.onCall = failing('unavailable');
    const before = a.calls.length;
    requests.request(2, [one.id]);
    await clock.advance(250);
    expect(a.calls).toHaveLength(before + 2);
  });

  it('asks nodes that know neither call only when there are no others: they may have learned it', async () => {
    a.unknown.add('GetFullCollectionByID').add('GetCollectionByID');
    const requests = requester({}, { nodes: new NodesInMemory<FakeNode>([a, b]) });
    requests.request(1, [one.id]);
    b.pending[0]!.fail('not_found');
    await clock.advance(250);
    expect([a.calls.length, b.calls.length]).toEqual([0, 2]);
    requester().request(1, [one.id]);
    expect(a.pending.map(({ method }) => method)).toEqual(['GetCollectionByID']);
  });

  it('holds deadline, unavailable and internal against the node, and nothing that is normal', async () => {
    const nodes = new NodesInMemory<FakeNode>([a]);
    requester({}, { nodes }).request(1, [one.id]);
    const kinds = ['not_yet', 'not_found', 'rate_limited', 'deadline', 'unavailable', 'internal'] as const;
    for (const kind of kinds) {
      a.pending[0]!.fail(kind);
      await clock.advanceUntil(() => a.pending.length > 0);
    }
    expect(nodes.faults()).toEqual(['a:9000 stale', 'a:9000 failing', 'a:9000 failing']);
    a.pending[0]!.answer(one.transactions);
    await clock.settle();
    expect(nodes.confirmed).toEqual([{ node: 'a:9000', method: 'GetFullCollectionByID' }]);
  });

  it('waits for a busy good node rather than flooding one that is set aside', () => {
    b.health = 'set_aside';
    requester({ concurrency: 2 }, { nodes: new NodesInMemory<FakeNode>([a, b]) }).request(1, idsOf(many(6)));
    expect([a.calls.length, b.calls.length]).toEqual([2, 0]);
  });
});

it('rate limits do not make the collection itself back off further and further', async () => {
  requester().request(1, [one.id]);
  for (let round = 0; round < 12; round += 1) {
    a.pending[0]!.fail('rate_limited');
    expect(await clock.advanceUntil(() => a.pending.length > 0)).toBeLessThanOrEqual(250);
  }
});

it('refusing: counts answers that cannot be read or are too large', async () => {
  requester().request(1, [one.id]);
  a.pending[0]!.fail('malformed');
  await clock.advance(250);
  a.pending[0]!.fail('too_large');
  await clock.advance(500);
  a.pending[0]!.answer([Buffer.from('not a transaction')]);
  await clock.settle();
  expect(await counted(metrics, 'invalid_collections_total', { reason: 'malformed' })).toBe(2);
  expect(await counted(metrics, 'invalid_collections_total', { reason: 'too_large' })).toBe(1);
  expect(sink.received).toHaveLength(0);
});

it('refusing: refuses a body of another id, counts it, sets the liar aside and asks elsewhere; warns once per liar, and names no id above debug', async () => {
  a.onCall = (call) => call.answer(two.transactions);
  b.onCall = honestOf(one);
  const nodes = new NodesInMemory<FakeNode>([a, b]);
  requester({}, { nodes }).request(1, [one.id]);
  await clock.advance(250);
  expect([sink.ids, nodes.faults()]).toEqual([[one.id], ['a:9000 lied']]);
  const lies = { source: 'requester', reason: 'id_mismatch' };
  expect(await counted(metrics, 'invalid_collections_total', lies)).toBe(1);
  logger.records.length = 0;
  const requests = requester().request(1, [one.id]);
  await clock.advance(20_000);
  const warnings = logger.of('warn');
  expect(a.calls.length).toBeGreaterThan(3);
  expect(warnings).toHaveLength(1);
  expect(JSON.stringify(warnings)).not.toContain(one.id);
  a.onCall = honestOf(one);
  await clock.advance(10_000);
  a.onCall = (call) => call.answer(three.transactions);
  requests.request(2, [two.id]);
  await clock.advance(10_000);
  expect(logger.of('warn')).toHaveLength(2);
});

it('refusing: passes an error that nobody expects to the owner, or one of the window, and none once it has stopped', async () => {
  requester().request(1, [one.id]);
  a.pending[0]!.fail(new TypeError('a bug'));
  await clock.settle();
  expect(fatal.splice(0)).toEqual([new TypeError('a bug')]);
  const bug = new TypeError('a bug in the window');
  let fail: () => void = () => undefined;
  window.admits = () => false;
  window.changed = () => new Promise((_, reject) => (fail = () => reject(bug)));
  requester().request(1, [one.id]);
  fail();
  await clock.settle();
  expect(fatal).toEqual([bug]);
  const stopped = requester().request(1, [one.id]);
  await stopped.stop();
  fail();
  await clock.settle();
  expect(fatal).toEqual([bug]);
});

it('cancelling ends a collection that is fetched in parts between any two of them', async () => {
  const requests = requester().request(1, [one.id]);
  a.pending[0]!.fail('unimplemented');
  requests.cancelAt(1);
  await clock.settle();
  expect(a.calls.map(({ method }) => method)).toEqual(['GetFullCollectionByID']);
  a.unknown.add('GetFullCollectionByID');
  requests.request(1, [one.id]);
  a.pending[0]!.answer(one.transactionIds);
  requests.cancelAt(1);
  await clock.settle();
  expect(sink.received).toEqual([]);
  expect(a.calls.filter(({ method, isAborted }) => method === 'GetTransaction' && !isAborted)).toEqual([]);
  expect([requests.inFlight(), fatal, clock.pendingTimers]).toEqual([0, [], 0]);
});

describe('nodes without GetFullCollectionByID', () => {
  beforeEach(() => a.unknown.add('GetFullCollectionByID'));

  it('are asked on where they left off when their rate limit refuses a transaction, within bounds', async () => {
    const full = makeCollection('a full one', 30);
    const serve = honestOf(full);
    const refused = new Set<string>();
    a.onCall = (call) => {
      if (call.method === 'GetCollectionByID' || refused.has(call.id)) {
        serve(call);
        return;
      }
      refused.add(call.id);
      call.fail('rate_limited');
    };
    requester().request(1, [full.id]);
    await clock.settle();
    expect(sink.ids).toEqual([full.id]);
    expect(a.calls.filter((call) => call.method === 'GetCollectionByID')).toHaveLength(1);
    expect(a.calls.filter((call) => call.method === 'GetTransaction')).toHaveLength(60);

    const before = a.calls.length;
    a.onCall = (call) => (call.method === 'GetTransaction' ? call.fail('rate_limited') : honestOf(one)(call));
    requester().request(2, [one.id]);
    await clock.settle();
    expect(a.calls.length - before).toBeGreaterThan(2);
    expect(a.calls.length - before).toBeLessThan(20);
  });

  it('leave the slots of transactions that have come to others, while the last one hangs', async () => {
    const full = makeCollection('a full one', 8);
    const serve = honestOf(full, one);
    const hangs = full.transactionIds.at(-1);
    const requests = requester({ concurrency: 4 }).request(1, [full.id]);
    a.pending.forEach(serve);
    await clock.settle();
    requests.request(2, [one.id]);
    expect(a.pending).toHaveLength(4);
    a.onCall = (call) => (call.id === hangs ? undefined : serve(call));
    a.pending.forEach(serve);
    await clock.settle();
    expect(sink.ids).toEqual([one.id]);
  });

  it('tell of the transactions that a rate limit refuses while they are still asked for', async () => {
    a.onCall = (call) => {
      if (call.method === 'GetCollectionByID') honestOf(one)(call);
      // The second time it waits for its turn.
      else if (a.calls.length <= 1 + one.transactions.length) call.fail('rate_limited');
    };
    const requests = requester().request(1, [one.id]);
    await clock.settle();
    const trail = requests.trail(one.id);
    expect(trail).toMatchObject({ attempts: 1, isUnderWay: true });
    const worst = trail?.failures?.get(a.name)?.failed.worst();
    expect(worst).toMatchObject({ kind: 'rate_limited', method: 'GetTransaction' });
    for (const call of a.pending) honestOf(one)(call);
    await clock.settle();
    expect(sink.ids).toEqual([one.id]);
  });

  it('are not begun while their transactions are held back, which is told', async () => {
    a.onCall = honestOf(one);
    a.heldBackUntilMs.set('GetTransaction', 2_000);
    const requests = requester().request(1, [one.id]);
    await clock.advance(1_800);
    expect(a.calls).toEqual([]);
    expect(requests.heldBack(1)).toEqual([{ node: a.name, untilMs: 2_000 }]);
    await clock.advance(150);
    // A moment is not worth a word.
    expect(requests.heldBack(1)).toEqual([]);
    await clock.advance(50);
    expect(sink.ids).toEqual([one.id]);
  });

  it('whose transactions fail are asked after the others, and not patiently', async () => {
    b.unknown.add('GetFullCollectionByID');
    a.failing.add('GetTransaction');
    a.onCall = (call) => (call.method === 'GetTransaction' ? call.fail('rate_limited') : honestOf(one)(call));
    b.onCall = honestOf(one);
    requester({}, { nodes: new NodesInMemory<FakeNode>([a, b]) }).request(1, [one.id]);
    await clock.settle();
    expect(sink.ids).toEqual([one.id]);
    expect(a.calls).toEqual([]);
    const alone = requester().request(2, [one.id]);
    await clock.settle();
    expect(alone.trail(one.id)).toMatchObject({ attempts: 1, isUnderWay: false });
  });

  it.each([
    ['the list of transactions is not the collection, before anything is fetched', 'GetCollectionByID', 1],
    ['one transaction is another one', 'GetTransaction', 3],
  ])('are refused when %s', async (_, method, calls) => {
    const nodes = new NodesInMemory<FakeNode>([a]);
    const serve = honestOf(one);
    a.onCall = (call) => {
      if (call.method === method)
        call.answer(method === 'GetTransaction' ? two.transactions[0] : two.transactionIds);
      else serve(call);
    };
    requester({}, { nodes }).request(1, [one.id]);
    await clock.settle();
    expect(a.calls).toHaveLength(calls);
    expect(sink.received).toHaveLength(0);
    expect(nodes.faults()).toEqual(['a:9000 lied']);
    expect(await counted(metrics, 'invalid_collections_total', { reason: 'id_mismatch' })).toBe(1);
  });

  it('fail as a whole when one transaction fails, and the others are cancelled', async () => {
    const serve = honestOf(one);
    a.onCall = (call) => {
      if (call.method === 'GetCollectionByID') serve(call);
    };
    const requests = requester().request(1, [one.id]);
    await clock.settle();
    const [first, second] = a.pending;
    first!.fail('not_found');
    await clock.settle();
    expect(second!.isAborted).toBe(true);
    expect(requests.inFlight()).toBe(0);
    a.onCall = serve;
    await clock.advance(250);
    expect(sink.ids).toEqual([one.id]);
    expect(fatal).toEqual([]);
  });
});

describe('holding back for execution data', () => {
  it('asks for what execution data does not deliver in time, and at once for what it is not expected to', async () => {
    const requests = requester({}, { forecast: { expects: (height) => height !== 2 } });
    requests.request(1, [one.id, two.id]);
    requests.request(2, [three.id]);
    expect(a.calls.map(({ id }) => id)).toEqual([three.id]);
    requests.cancelAt(2);
    await clock.advance(499);
    requests.cancelAt(1);
    await clock.advance(60_000);
    expect(a.calls).toHaveLength(1);
    expect(await counted(metrics, 'collection_requests_held_back_total')).toBe(1);
    expect(await counted(metrics, 'collections_requested_total')).toBe(1);
    expect(clock.pendingTimers).toBe(0);
    requests.request(3, [three.id]);
    await clock.advance(499);
    expect(a.calls).toHaveLength(1);
    await clock.advance(1);
    expect(a.calls).toHaveLength(2);
    requester({ holdBackMs: 0 }, { forecast: { expects: () => true } }).request(1, [one.id]);
    expect(a.calls).toHaveLength(3);
  });

  it('asks at once when the stream is no longer counted on, at the next look', async () => {
    let fresh = true;
    const requests = requester({ holdBackMs: 10_000 }, { forecast: { expects: () => fresh } });
    requests.request(1, [one.id]);
    await clock.advance(2_000);
    fresh = false;
    await clock.advance(250);
    expect(a.calls.map((call) => call.id)).toEqual([one.id]);
    expect(await counted(metrics, 'collection_requests_held_back_total')).toBe(1);
  });

  it('counts on the stream for as long as fetching would take, once that was seen', async () => {
    const looks: number[] = [];
    const all = many(30);
    const requests = requester(
      { concurrency: 2, holdBackMs: 2_000 },
      { forecast: { expects: (height, withinMs) => height === 7 && looks.push(withinMs) < 0 } },
    );
    requests.request(7, [one.id]);
    expect(looks).toEqual([500]);
    a.onCall = (call) => void clock.setTimer(100, () => honestOf(one, ...all)(call));
    for (const { id } of all) requests.request(8, [id]);
    requests.cancelAt(7);
    // Two at a time, a tenth of a second each: one in 50 ms.
    await clock.advanceUntil(() => sink.received.length === 24);
    looks.length = 0;
    requests.request(7, [two.id, three.id]);
    await clock.advance(100);
    expect(looks.length).toBeGreaterThan(0);
    for (const withinMs of looks) {
      expect(withinMs).toBeGreaterThan(100);
      expect(withinMs).toBeLessThan(500);
    }
  });
});

it('without any node looks again until there is one', async () => {
  const nodes = new NodesInMemory<FakeNode>([]);
  requester({}, { nodes }).request(1, [one.id]);
  await clock.advance(5_000);
  a.onCall = honestOf(one);
  nodes.all = [a];
  await clock.advance(1_000);
  expect(sink.ids).toEqual([one.id]);
});

it('no more answers wait within a turn, with their slots given away, than calls may be under way', async () => {
  const wanted = many(9);
  a.onCall = honestOf(...wanted);
  requester({ concurrency: 2, workersPerHeight: 100 }).request(1, idsOf(wanted));
  await clock.turn();
  expect(a.calls).toHaveLength(4);
  await clock.settle();
  expect(sink.ids.toSorted()).toEqual(idsOf(wanted).toSorted());
});

describe('the slots, which all requesters share,', () => {
  it('are given back by an answer that comes after the stop', async () => {
    const slots = endpointSlots(4);
    a.getFullCollection = () => Promise.resolve(one.transactions);
    const requests = requester({}, { slots }).request(1, [one.id]);
    expect(slots.inUse).toBe(1);
    await requests.stop();
    expect([slots.inUse, requests.inFlight()]).toEqual([0, 0]);
    expect(sink.ids).toEqual([]);
    requests.request(2, [two.id]);
    expect([
      slots.inUse,
      requests.inFlight(),
      await counted(metrics, 'collection_requests_cancelled_total'),
    ]).toEqual([0, 0, 0]);
  });

  it('are given back whatever happens, in whatever order, and whenever it is stopped', async () => {
    const collections = many(6, 'any');
    const kinds = ['not_found', 'deadline', 'rate_limited', 'unimplemented', 'malformed'] as const;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(9), fc.nat(7)), { maxLength: 40 }),
        fc.boolean(),
        fc.boolean(),
        async (steps, isLight, isBroken) => {
          ({ clock, sink, window, waiters, a, fatal } = sources());
          if (isLight) a.unknown.add('GetFullCollectionByID');
          if (isBroken) sink.onReceived = () => expect.unreachable('a bug of the sink');
          const slots = endpointSlots(3);
          const requests = requester({ concurrency: 3 }, { slots });
          for (const [height, { id }] of collections.entries()) requests.request(height + 1, [id, one.id]);
          for (const [what, which] of steps) {
            const call = a.pending[which % Math.max(1, a.pending.length)];
            if (what < 3 && call !== undefined) honestOf(...collections, one)(call);
            else if (what < 5 && call !== undefined) call.fail(kinds[which % kinds.length]!);
            else if (what === 5) requests.cancelAt(which);
            else if (what === 6) await clock.advance(100 * which);
            else if (what === 7) window.admits = () => which % 2 === 0;
            else await clock.turn();
          }
          await requests.stop();
          const delivered = [...sink.ids];
          await clock.settle();
          expect(sink.ids).toEqual(delivered);
          expect([slots.inUse, requests.inFlight(), clock.pendingTimers, waiters()]).toEqual([0, 0, 0, 0]);
          expect(isBroken ? [] : fatal).toEqual([]);
        },
      ),
      { numRuns: 60 },
    );
  });
});

it('a bug in choosing reaches the owner, whoever gave the reason to send, and stops nobody from sending later', async () => {
  const bug = new TypeError('a bug in the pool');
  const nodes = new NodesInMemory<FakeNode>([a]);
  const forHeight = nodes.forHeight.bind(nodes);
  nodes.forHeight = () => {
    throw bug;
  };
  const requests = requester({}, { nodes });
  expect(() => requests.request(100, [one.id])).not.toThrow();
  await clock.settle();
  expect(fatal).toEqual([bug]);
  nodes.forHeight = forHeight;
  requests.request(200, [two.id]);
  expect(a.calls.map(({ id }) => id)).toEqual([one.id, two.id]);
});
