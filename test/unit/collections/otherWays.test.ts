import { beforeEach, describe, expect, it } from 'vitest';
import { failing, FAILURES, FakeNode, HeightsRequester, honestOf, makeCollection } from './sourceHarness.js';
import { methodsOf, RecordedNodes, sources } from './sourceHarness.js';
import type { FakeCall, MadeCollection } from './sourceHarness.js';

const FULL = 'GetFullCollectionByID';
const LIGHT = 'GetCollectionByID';
const HEAD = 1_000;
/** Whatever is wrong, what can be had is had within this time. */
const WITHIN_MS = 15_000;

let { clock, sink, window, fatal } = sources(0, HEAD);
let nodes: RecordedNodes;

beforeEach(() => {
  ({ clock, sink, window, fatal } = sources(0, HEAD));
});

function asking(
  played: Readonly<Record<string, (call: FakeCall) => void>>,
  options: { readonly timeoutMs?: number } = {},
): { readonly requests: HeightsRequester; readonly calls: () => FakeCall[] } {
  const list = Object.entries(played).map(([name, onCall]) => {
    const node = new FakeNode(name, clock);
    node.onCall = (call) => {
      if (call.timeoutMs !== undefined) clock.setTimer(call.timeoutMs, () => call.fail('deadline'));
      onCall(call);
    };
    return node;
  });
  nodes = new RecordedNodes(clock, ...list);
  const onFatal = (error: unknown): void => void fatal.push(error);
  const requests = new HeightsRequester(options, { nodes, sink, window, clock, onFatal });
  const calls = (): FakeCall[] =>
    list.flatMap((node) => node.calls).sort((one, other) => one.atMs - other.atMs);
  return { requests, calls };
}

const made: MadeCollection[] = Array.from({ length: 60 }, (_, place) => makeCollection(`other way ${place}`));
const [one, two, three] = made as [MadeCollection, MadeCollection, MadeCollection];

const honest = honestOf(...made);

type Fault = (call: FakeCall) => void;
const FAULTS: readonly (readonly [string, Fault])[] = [
  ...([...FAILURES, 'unimplemented'] as const).map((kind) => [kind, failing(kind)] as const),
  ['silence', () => undefined],
  ['another collection', (call) => call.answer(call.method === FULL ? two.transactions : two.transactionIds)],
];

const broken =
  (method: string, fault: Fault): Fault =>
  (call) =>
    call.method === method ? fault(call) : honest(call);

describe.each(FAULTS)('a call that is answered with %s for good', (_, fault) => {
  it('gives way to the light collection with its transactions, at the tip and while catching up', async () => {
    const { requests } = asking({ 'a:9000': broken(FULL, fault) });
    requests.request(HEAD, [three.id]);
    await clock.advanceUntil(() => sink.ids.length === 1, WITHIN_MS);
    const { requests: catchingUp } = asking({ 'a:9000': broken(FULL, fault) });
    for (const [place, { id }] of made.entries()) catchingUp.request(1 + place, [id]);
    await clock.advanceUntil(() => sink.ids.includes(one.id), WITHIN_MS);
    await clock.advanceUntil(() => sink.ids.length === 1 + made.length, 4 * WITHIN_MS);
    expect(fatal).toEqual([]);
  });

  it.each([LIGHT, 'GetTransaction'])('at another node gives way to the honest one: %s', async (method) => {
    const { requests } = asking({
      'a:9000': (call) => (call.method === method || call.method === FULL ? fault(call) : honest(call)),
      'b:9000': honest,
    });
    requests.request(HEAD, [one.id]);
    await clock.advanceUntil(() => sink.ids.length === 1, WITHIN_MS);
  });

  it('leaves the one honest way of two nodes, whichever it is', async () => {
    const { requests } = asking({ 'a:9000': fault, 'b:9000': broken(FULL, fault) });
    requests.request(HEAD, [one.id]);
    await clock.advanceUntil(() => sink.ids.length === 1, WITHIN_MS);
    const second = asking({ 'a:9000': broken(FULL, fault), 'b:9000': fault });
    second.requests.request(HEAD, [three.id]);
    await clock.advanceUntil(() => sink.ids.length === 2, WITHIN_MS);
    await Promise.all([requests.stop(), second.requests.stop()]);
  });
});

it('another way is tried once the first failed twice, and what failed is tried again later, one call at a time', async () => {
  let isBroken = true;
  const { requests, calls } = asking({
    'a:9000': (call) => {
      if (call.method === FULL && isBroken) call.fail('internal');
      else clock.setTimer(20, () => honest(call));
    },
  });
  requests.request(1, [one.id]);
  await clock.advanceUntil(() => sink.ids.length === 1);
  expect(methodsOf(calls())).toEqual([FULL, FULL, LIGHT, 'GetTransaction', 'GetTransaction']);
  expect(methodsOf(nodes.reported)).toEqual([FULL, FULL]);
  expect(methodsOf(nodes.confirmed)).toEqual([LIGHT]);
  await clock.advance(10_000);
  const before = calls().length;
  for (const [place, { id }] of made.slice(1, 5).entries()) requests.request(2 + place, [id]);
  await clock.settle();
  expect(methodsOf(calls().slice(before)).filter((method) => method === FULL)).toHaveLength(1);
  await clock.advanceUntil(() => sink.ids.length === 5);
  isBroken = false;
  await clock.advance(20_000);
  const again = calls().length;
  requests.request(10, [made[10]!.id]);
  await clock.advance(100);
  requests.request(11, [made[11]!.id]);
  await clock.advance(100);
  expect(methodsOf(calls().slice(again))).toEqual([FULL, FULL]);
});

it('another way is never tried for a rate limit, which is not evaded at the same node', async () => {
  const { requests, calls } = asking({ 'a:9000': broken(FULL, failing('rate_limited')) });
  requests.request(HEAD, [one.id]);
  await clock.advance(60_000);
  expect(new Set(methodsOf(calls()))).toEqual(new Set([FULL]));
});

it('another way counts a transaction that fails against the light collection', async () => {
  const { requests } = asking({
    'a:9000': (call) => {
      if (call.method === LIGHT) honest(call);
      else call.fail('internal');
    },
  });
  requests.request(1, [one.id]);
  await clock.advance(4_000);
  expect(methodsOf(nodes.reported).slice(0, 3)).toEqual([FULL, FULL, LIGHT]);
  const { failed } = requests.trail(one.id)!.failures!.get('a:9000')!;
  expect([failed.worst().kind, failed.sinceMs, failed.count]).toEqual(['refused', 0, nodes.reported.length]);
});

it('another way is reported on the call that denied what the other one gave', async () => {
  const { requests, calls } = asking({ 'a:9000': broken(FULL, failing('not_found')) });
  for (const [place, { id }] of made.slice(0, 3).entries()) requests.request(1 + place, [id]);
  await clock.advanceUntil(() => sink.ids.length === 3, WITHIN_MS);
  expect(nodes.faults()).toEqual(Array(3).fill('a:9000 failing'));
  expect(methodsOf(nodes.reported)).toEqual(Array(3).fill(FULL));
  const before = calls().length;
  requests.request(5, [made[5]!.id]);
  await clock.settle();
  expect(calls()[before]?.method).toBe(LIGHT);
  expect(sink.ids).toHaveLength(4);
});

it('a silent call is told of, left after 4 s while there is another way, and has its whole time when there is none', async () => {
  const { requests, calls } = asking({ 'a:9000': () => undefined });
  await clock.advance(500);
  requests.request(HEAD, [one.id]);
  expect(requests.trail(one.id)).toMatchObject({
    ...{ isUnderWay: true, askedAtMs: 500, lastNode: 'a:9000', lastWay: FULL },
  });
  await clock.advance(4_001);
  expect(requests.trail(one.id)).toMatchObject({ isUnderWay: false, askedAtMs: undefined });
  await clock.advance(60_000);
  expect(calls().map(({ timeoutMs }) => timeoutMs)).toEqual([
    4_000,
    ...Array<number>(calls().length - 1).fill(10_000),
  ]);
  expect(methodsOf(calls())).toContain(LIGHT);
  expect(nodes.faults()[0]).toBe('a:9000 stale');
});

it('a silent call has no more time than the deadline that was set, and more of a node that answers, slowly', async () => {
  const bounded = asking({ 'a:9000': () => undefined }, { timeoutMs: 1_500 });
  bounded.requests.request(HEAD, [one.id]);
  expect(bounded.calls().map(({ timeoutMs }) => timeoutMs)).toEqual([1_500]);
  await bounded.requests.stop();
  const { requests, calls } = asking({ 'a:9000': (call) => void clock.setTimer(3_500, () => honest(call)) });
  requests.request(1, [one.id]);
  await clock.advance(3_500);
  expect(sink.ids).toEqual([one.id]);
  requests.request(2, [two.id]);
  expect(calls().map(({ timeoutMs }) => timeoutMs)).toEqual([4_000, 7_000]);
});
