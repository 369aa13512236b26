import { expect, it } from 'vitest';
import { Failures } from '../../../src/access/index.js';
import { block, committing, id, meeting, settle } from './meetingHarness.js';

it('is done with a height that held up the watermark once that has moved, and with no other block', async () => {
  const store = committing();
  const before = meeting({ store });
  before.run(block(2, []));
  before.run(block(4, []));
  await settle();
  const { run, done, fatal } = meeting({ store });
  run(block(1, []));
  await settle();
  expect([done, store.latestIndexedHeight()]).toEqual([[1], 1]);
  run(block(2, []));
  expect(done).toEqual([1]);
  await settle();
  expect([done, store.latestIndexedHeight()]).toEqual([[1, 2], 2]);
  run(block(4, [], 'other'));
  await settle();
  expect(done).toEqual([1, 2]);
  expect(fatal).toMatchObject([{ name: 'OffChainBlockError', height: 4 }]);
});

it('is done with a height that was durable when its turn came, and measures nothing of it', async () => {
  const { run, done, store, count } = meeting();
  run(block(1, []));
  await settle();
  run(block(2, []));
  store.blocks.set(2, { block: block(2, []), collections: [] });
  store.finish();
  await settle();
  expect(done).toEqual([1, 2]);
  expect(await count('heights_completed_total')).toBe(1);
});

it('asks once per distinct id, and cancels what is outstanding when execution data comes first', () => {
  const { run, edi, wanted, calls } = meeting();
  run(block(1, ['a', 'b', 'a']));
  expect(wanted.get(1)).toEqual([id('a'), id('b')]);
  edi(1, ['a', 'b', 'a']);
  expect(calls).toEqual(['request 1', 'cancel 1']);
});

it('refuses and counts what nobody asked for', async () => {
  const { run, edi, count, mcq, window } = meeting();
  run(block(1, ['a', 'b']));
  edi(2, ['c', 'd', 'e']);
  edi(1, ['b', 'a']);
  edi(1, ['a']);
  expect(await count('invalid_collections_total', { source: 'edi', reason: 'unsolicited' })).toBe(6);
  expect(await count('collections_received_total')).toBe(0);
  expect([mcq.missing(1).length, window.bytesInHand]).toEqual([2, 0]);
});

it('counts what comes by each source, and again what had come already', async () => {
  const { run, edi, answer, count } = meeting();
  run(block(1, ['a', 'b']));
  run(block(2, ['b', 'c']));
  answer('b');
  edi(1, ['a', 'b']);
  answer('a');
  const counts = async (name: string) => [
    await count(name, { source: 'requester' }),
    await count(name, { source: 'edi' }),
  ];
  expect(await counts('collections_received_total')).toEqual([2, 2]);
  expect(await counts('duplicate_collections_total')).toEqual([1, 1]);
  expect(await counts('invalid_collections_total')).toEqual([0, 0]);
});

const source = { name: 'node', method: 'GetBlockByHeight' } as const;

it('begins a height that is not complete anew with the block of the chain, as the same job', async () => {
  const m = meeting({ store: committing() });
  m.run(block(1, ['a', 'lie'], 'lying'));
  m.run(block(2, ['lie']));
  m.answer('a');
  m.clock.ms = 5;
  for (const _ of ['once', 'again']) m.processor.onForked(block(1, ['b', 'a', 'b']), source);
  expect(m.explainer.oldestMissing()).toMatchObject({ height: 1, ageMs: 5 });
  expect(m.calls).toEqual(['request 1', 'request 2', 'cancel 1', 'request 1']);
  expect(m.wanted.get(1)).toEqual(['b', 'a'].map(id));
  expect([m.window.bytesInHand, m.window.blockAt(1)?.id, m.window.inHand]).toEqual([0, id('b1'), 2]);
  for (const name of ['b', 'a']) m.answer(name);
  await settle();
  expect([m.done, m.window.bytesInHand, m.fatal]).toEqual([[1], 0, []]);
  expect(m.store.blocks.get(1)?.block.id).toBe(id('b1'));
  expect(m.store.blocks.get(1)?.collections.map((each) => each.id)).toEqual(['b', 'a', 'b'].map(id));
  expect(m.mcq.wanted(id('lie'))?.heights.map(({ height }) => height)).toEqual([2]);
  // One that wants nothing is complete.
  m.processor.onForked(block(2, [], 'other'), source);
  await settle();
  expect([m.done, m.mcq.wanted(id('lie'))]).toEqual([[1, 2], undefined]);
});

it('reports a failed commit to the owner once, and is done with nothing', async () => {
  const m = meeting();
  for (const height of [1, 2, 3]) m.run(block(height, []));
  await settle();
  m.run(block(4, []));
  const failure = new Error('disk full');
  m.store.fail(failure);
  await settle();
  m.run(block(5, []));
  await settle();
  expect([m.fatal, m.done]).toEqual([[failure], []]);
  expect(m.window.inHand).toBe(5);
});

it('reports what a done throws to the owner', async () => {
  const m = meeting({ store: committing() });
  const bug = new Error('bug in the consumer');
  m.processor.run({ id: '1', height: 1, block: block(1, []) }, () => {
    throw bug;
  });
  await settle();
  expect(m.fatal).toEqual([bug]);
});

it('takes the block of the chain while it can, and fails with one that is complete', () => {
  const { answer, fatal, processor, run, window } = meeting();
  processor.onForked(block(1, []), source);
  run(block(1, ['a'], 'false'));
  processor.onForked(block(1, ['b'], 'true'), source);
  expect([window.at(1)?.block, fatal]).toEqual([block(1, ['b'], 'true'), []]);
  answer('b');
  processor.onForked(block(1, [], 'late'), source);
  expect(fatal).toMatchObject([{ name: 'OffChainBlockError', height: 1 }]);
});

it('takes a stop for no failure', async () => {
  const m = meeting();
  m.run(block(1, []));
  await settle();
  m.run(block(2, []));
  const stopped = m.indexer.stop();
  m.store.finish();
  await settle();
  m.run(block(3, []));
  await stopped;
  expect([m.fatal, m.done]).toEqual([[], [1]]);
});

it('refuses a job above the window, one that is running, and one with another block', () => {
  const { run, processor } = meeting({ windowHeights: 3 });
  run(block(1, ['a']));
  expect(() => run(block(1, ['a']))).toThrow('queued twice');
  expect(() => run(block(4, ['a']))).toThrow('above the window');
  expect(() => processor.run({ id: '2', height: 2, block: block(3, []) }, () => undefined)).toThrow(
    'carries',
  );
});

it('names the lowest missing height, its age and its ids, and unresolvable ones, the lowest first', () => {
  const m = meeting();
  expect(m.explainer.oldestMissing()).toBeUndefined();
  m.run(block(1, ['a', 'lost']));
  m.clock.ms = 500;
  m.run(block(2, ['b', 'c']));
  for (const name of ['a', 'b']) m.answer(name);
  m.clock.ms = 2000;
  expect(m.explainer.oldestMissing()).toEqual({ height: 1, ids: [id('lost')], ageMs: 2000 });
  expect(m.explainer.unresolvable(2000)).toEqual([]);
  const lowest = { height: 1, ids: [id('lost')], ageMs: 2000 };
  expect(m.explainer.unresolvable(1600)).toEqual([lowest]);
  expect(m.explainer.unresolvable(400)).toEqual([lowest, { height: 2, ids: [id('c')], ageMs: 1500 }]);
  m.answer('lost');
  expect(m.explainer.oldestMissing()).toEqual({ height: 2, ids: [id('c')], ageMs: 1500 });
});

it('explains where a height stands', async () => {
  const m = meeting();
  const tried = { attempts: 3, lastNode: 'node:9000', lastError: 'not found', notFound: 3 };
  m.head.height = 5;
  m.run(block(1, []));
  await settle();
  m.store.finish();
  await settle();
  m.run(block(2, []));
  m.run(block(3, ['a', 'lost']));
  Object.assign(m.mcq.wanted(id('lost'))!, tried);
  m.clock.ms = 10;
  m.answer('a');
  m.clock.ms = 40;
  m.trouble.executionData = 'no feed';
  const stages = [1, 2, 3, 4, 6].map((height) => m.explainer.explain(height).stage);
  expect(stages).toEqual(['indexed', 'committing', 'collecting', 'queued', 'outside']);
  const missingCollections = [
    { collectionId: id('lost'), ...tried, isUnderWay: false, lastAskedAt: null, failures: [] },
  ];
  const why = { executionData: 'no feed', peer: null, reportedBy: null };
  const work = { ageSeconds: 0.04, collections: 2, missing: 1, missingCollections, ...why };
  expect(m.explainer.explain(3)).toEqual({ stage: 'collecting', blockId: id('b3'), waitedMs: 30, work });
  m.answer('lost');
  m.clock.ms = 70;
  const explained = m.explainer.explain(3);
  expect(explained).toMatchObject({ stage: 'committing', waitedMs: 30, work: { ageSeconds: 0.07 } });
});

it('says what holds a height up: nodes with their words, rate limits', async () => {
  const m = meeting();
  const method = 'GetFullCollectionByID';
  const failed = (node: string, count: number, said: string, lastAt: number, sinceMs: number) => {
    const failures = new Failures();
    const at = [sinceMs, ...Array<number>(count - 1).fill(lastAt)];
    for (const atMs of at) failures.note({ method, kind: 'refused', said, atMs });
    return [node, { failed: failures, lastError: said, lastAt }] as const;
  };
  m.run(block(1, ['a', 'b', 'c', 'come']));
  const [a, b, c] = m.mcq.missing(1);
  const y = failed('y:9000', 7, 'earlier words', 100, 60);
  Object.assign(a!, { lastNode: 'y:9000', failures: new Map([y, failed('x:9000', 1, 'no', 90, 50)]) });
  const failures = new Map([failed('y:9000', 2, 'latest words', 200, 70)]);
  Object.assign(b!, { lastNode: 'y:9000', failures });
  Object.assign(c!, { lastNode: 'z:9000', call: {}, sentAtMs: 1_000, lastWay: 'GetCollectionByID' });
  // A lesser failure of the other way, in between, is not the cause.
  const lesser = { method: 'GetCollectionByID', kind: 'denied', said: 'not here', atMs: 300 } as const;
  failures.get('y:9000')?.failed.note(lesser);
  m.requests.heldBackNodes = [{ node: 'y:9000', untilMs: 5_000 }];
  m.answer('come');
  m.clock.ms = 4_000;
  expect(m.explainer.heldUpBy(1)).toEqual({
    ...{ missing: 3, of: 4, heldBack: m.requests.heldBackNodes },
    troubles: [
      { node: 'x:9000', method, kind: 'refused', said: 'no', count: 1, sinceMs: 50 },
      { node: 'y:9000', method, kind: 'refused', said: 'latest words', count: 7, sinceMs: 60 },
      {
        ...{ node: 'z:9000', method: 'GetCollectionByID', kind: 'unreachable', count: 0, sinceMs: 1_000 },
        said: 'GetCollectionByID at z:9000: no answer yet',
      },
    ],
  });
  m.clock.ms = 3_999;
  expect(m.explainer.heldUpBy(1)?.troubles.map(({ node }) => node)).toEqual(['x:9000', 'y:9000']);
  for (const name of ['a', 'b', 'c']) m.answer(name);
  expect([m.explainer.heldUpBy(1), m.explainer.heldUpBy(2)]).toEqual([undefined, undefined]);
  const alone = meeting({ ediOnly: true });
  alone.run(block(1, ['a']));
  expect(alone.explainer.heldUpBy(1)).toMatchObject({ missing: 1, of: 1, troubles: [], heldBack: [] });
  // A block that is proven is nobody's word.
  alone.run({ ...block(2, ['b']), proof: new Uint8Array(1) });
  expect(alone.explainer.explain(2)).toMatchObject({ blockId: id('b2'), work: { reportedBy: null } });
  await settle();
});

it('measures from the hand-out and from the receipt to the durable commit', async () => {
  const m = meeting();
  m.run(block(1, ['a', 'b']));
  m.clock.ms = 1000;
  m.answer('a');
  m.clock.ms = 3000;
  m.edi(1, ['a', 'b']);
  await settle();
  m.clock.ms = 3500;
  m.store.finish();
  await settle();
  expect(await m.count('height_queue_to_complete_seconds_sum')).toBe(3.5);
  expect(await m.count('collection_receive_to_indexed_seconds_sum', { source: 'requester' })).toBe(2.5);
  expect(await m.count('collection_receive_to_indexed_seconds_sum', { source: 'edi' })).toBe(0.5);
});
