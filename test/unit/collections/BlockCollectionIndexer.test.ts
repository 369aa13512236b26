import { expect, it } from 'vitest';
import { BlockCollectionIndexer } from '../../../src/collections/index.js';
import { encodeBlock, type Identifier } from '../../../src/flow/index.js';
import { createMetrics, silentLogger, type Logger } from '../../../src/observability/index.js';
import { AbortError } from '../../../src/runtime/index.js';
import { ParentLinkError } from '../../../src/storage/index.js';
import type { CommitQueueOptions, SporkRecord, WriteRoom } from '../../../src/storage/index.js';
import { block, collection, committing, HandClock, HandStore, id, settle } from './meetingHarness.js';
import { RecordingLogger, windowOf } from '../../support/index.js';

interface Options extends Partial<CommitQueueOptions> {
  readonly windowHeights?: number;
  readonly store?: HandStore;
  readonly sporkFor?: (height: number) => SporkRecord | undefined;
  readonly rootParentAt?: (height: number) => Identifier | undefined;
  readonly room?: WriteRoom;
  readonly logger?: Logger;
}

function indexing({ store = new HandStore(), windowHeights = 100, ...options }: Options = {}) {
  const clock = new HandClock();
  const metrics = createMetrics({ version: 'test', node: 'test' });
  const window = windowOf(store, { heights: windowHeights });
  const indexer = new BlockCollectionIndexer(
    { groupMaxHeights: 100, groupMaxBytes: 1e6, ...options },
    { store, window, clock, metrics, logger: silentLogger, ...options },
  );
  const put = (height: number, names: readonly string[] = [], bytes = 10): Promise<boolean> =>
    indexer.onReceivedCollectionsForBlock(
      block(height, names),
      names.map((name) => collection(name, bytes)),
    );
  return { store, clock, metrics, indexer, put };
}

/** Who tells of the sporks that are known at that moment. */
function tellerOf(known: readonly SporkRecord[]): Options {
  return { sporkFor: (height) => known.findLast(({ rootHeight }) => rootHeight <= height) };
}

function heightsOf(store: HandStore): number[][] {
  return store.batches.map((batch) => batch.blocks.map((entry) => entry.block.height));
}

function heightsStaged(store: HandStore): number[] {
  return [...store.staged].map(({ block: { height } }) => height);
}

it('writes a height once when two callers deliver it at the same time', async () => {
  const { store, put } = indexing();
  const answers: string[] = [];
  const first = put(1, ['a']).then((written) => answers.push(`first ${written}`));
  const second = put(1, ['a']).then((written) => answers.push(`second ${written}`));
  await settle();
  const third = put(1, ['a']).then((written) => answers.push(`third ${written}`));
  await settle();
  expect(answers).toEqual([]);
  store.finish();
  await Promise.all([first, second, third]);
  expect(answers.sort()).toEqual(['first true', 'second false', 'third false']);
  expect(await put(1, ['a'])).toBe(false);
  expect(heightsOf(store)).toEqual([[1]]);
});

it('leaves out of the next batch what turned out durable while it was put together', async () => {
  const { store, put } = indexing({ groupMaxHeights: 2 });
  void put(1);
  await settle();
  const all = [put(2, ['a']), put(3, []), put(4, ['b'])];
  expect(heightsStaged(store)).toEqual([2, 3]);
  store.blocks.set(2, { block: block(2, ['a']), collections: [] });
  store.blocks.set(3, { block: block(3, []), collections: [] });
  store.auto = true;
  store.finish();
  expect(await Promise.all(all)).toEqual([false, false, true]);
  expect(heightsOf(store)).toEqual([[1], [4]]);
});

it('has the next group put together while one is being written, some of it in each turn', async () => {
  const { store, clock, put } = indexing({ groupMaxBytes: 400_000 });
  const turns: (() => void)[] = [];
  clock.heldTurns = turns;
  const all = Array.from({ length: 14 }, (_, index) => put(index + 1, [`c${index + 1}`], 60_000));
  await settle();
  expect(store.underWay?.blocks.map(({ block }) => block.height)).toEqual([1, 2, 3, 4, 5, 6]);
  expect(heightsStaged(store)).toEqual([7, 8, 9]);
  while (turns.length > 0) turns.shift()?.();
  expect(heightsStaged(store)).toEqual([7, 8, 9, 10, 11, 12]);
  clock.heldTurns = undefined;
  store.finish();
  await settle();
  expect(heightsStaged(store)).toEqual([13, 14]);
  all.push(put(15));
  expect(heightsStaged(store)).toEqual([13, 14, 15]);
  store.auto = true;
  store.finish();
  await Promise.all(all);
  expect(heightsOf(store).map((heights) => heights.length)).toEqual([6, 6, 3]);
  expect(store.staged.size).toBe(0);
});

it('makes groups no larger than their bounds, lowest heights first, and larger ones of empty heights', async () => {
  const { store, put } = indexing({ store: committing(), groupMaxHeights: 3, groupMaxBytes: 100 });
  const all = [5, 4, 3].map((height) => put(height, [`c${height}`], 60));
  all.push(...[9, 8, 7, 6, 2].map((height) => put(height)));
  all.push(put(1, ['c1'], 1000));
  await Promise.all(all);
  expect(heightsOf(store)).toEqual([[1], [2, 3], [4], [5, 6, 7], [8, 9]]);
  const bounds = { groupMaxHeights: 2, groupMaxEmptyHeights: 5 };
  const { store: second, put: putSecond } = indexing({ store: committing(), ...bounds });
  const empty = [1, 2, 3, 4, 5, 6, 8, 11].map((height) => putSecond(height));
  await Promise.all([...empty, ...[7, 9, 10].map((height) => putSecond(height, [`c${height}`]))]);
  expect(heightsOf(second).map((heights) => heights.join())).toEqual(['1,2,3,4,5', '6,7,8,9', '10,11']);
});

it('passes over nothing more once it is told to stop', async () => {
  const store = committing();
  await indexing({ store }).put(2);
  const { indexer, put } = indexing({ store });
  await put(1);
  await indexer.stop();
  await expect(indexer.confirm(block(2, []))).rejects.toMatchObject({ name: 'AbortError' });
  expect(store.latestIndexedHeight()).toBe(1);
});

it('refuses what does not link to a durable block above the gap; once that is forgotten, a restart goes on', async () => {
  const store = committing();
  const lied = indexing({ store });
  await lied.put(1);
  await lied.indexer.onReceivedCollectionsForBlock({ ...block(3, [], 'lie'), parentId: id('lie2') }, []);
  await expect(lied.put(2)).rejects.toThrow(ParentLinkError);
  await store.forgetAbove();

  const restarted = indexing({ store });
  await Promise.all([restarted.put(2), restarted.put(3)]);
  expect(store.latestBlock()?.id).toBe(id('b3'));
});

it('refuses collections that are not the block’s own', async () => {
  const { store, indexer } = indexing({ windowHeights: 5 });
  const give = (height: number, names: readonly string[]) =>
    indexer.onReceivedCollectionsForBlock(
      block(height, ['a', 'b']),
      names.map((name) => collection(name)),
    );
  await expect(give(1, ['a'])).rejects.toThrow('2 guarantees but got 1');
  await expect(give(1, ['b', 'a'])).rejects.toThrow('collection 0 is not');
  await expect(give(1, ['a', 'x'])).rejects.toThrow('collection 1 is not');
  await expect(give(6, ['a', 'b'])).rejects.toThrow('above the window');
  const first = give(5, ['a', 'b']);
  const other = () => indexer.onReceivedCollectionsForBlock(block(5, [], 'other'), []);
  await expect(other()).rejects.toThrow('two blocks');
  await settle();
  await expect(other()).rejects.toThrow('two blocks');
  store.finish();
  expect(await first).toBe(true);
});

it('takes a store that keeps another watermark than the committed one for broken', async () => {
  const store = committing();
  const finish = store.finish.bind(store);
  store.finish = () => {
    finish();
    store.latestIndexedHeight = () => 0;
  };
  await expect(indexing({ store }).put(1)).rejects.toThrow('watermark is not the 1');
});

it('records sporks with their root blocks, once', async () => {
  const sporks = ['aa', 'bb', 'cc'].map((sporkId, index) => ({ rootHeight: 1 + 2 * index, sporkId }));
  const store = committing(sporks.slice(0, 1));
  const { put } = indexing({ store, ...tellerOf(sporks) });
  await Promise.all([1, 2, 3, 4, 5, 6].map((height) => put(height)));
  expect(store.batches.map((batch) => batch.sporks)).toEqual([sporks.slice(1)]);
});

it('records a spork that nobody told of until its root was written, with the next batch or at the end', async () => {
  const known = [{ rootHeight: 1, sporkId: 'aa' }];
  const store = committing(known.slice(0, 1));
  const { indexer, put } = indexing({ store, ...tellerOf(known) });
  await Promise.all([put(1), put(2), put(3)]);
  known.push({ rootHeight: 3, sporkId: 'bb' });
  await put(4);
  await put(5);
  known.push({ rootHeight: 5, sporkId: 'cc' });
  expect(await indexer.stop()).toBe(true);
  await indexer.recordLateSpork();
  await indexer.recordLateSpork();
  expect(store.meta().sporks).toEqual(known);
  expect(heightsOf(store)).toEqual([[1, 2, 3], [4], [5], []]);
});

it('adds the id of a spork that its only node did not tell until its root was written', async () => {
  const spork = { rootHeight: 2, sporkId: '' };
  const store = committing([]);
  const { put } = indexing({
    store,
    sporkFor: (height) => (height >= 2 ? spork : undefined),
    rootParentAt: (height) => (height === 2 ? block(1, []).id : undefined),
  });
  await put(1);
  await put(2);
  const root = { rootHeight: 2, rootParentId: block(1, []).id };
  expect(store.meta().sporks).toEqual([{ ...root, sporkId: '' }]);
  spork.sporkId = 'bb';
  await put(3);
  expect(store.meta().sporks).toEqual([{ ...root, sporkId: 'bb' }]);
  await put(4);
  expect(store.batches.filter(({ sporks = [] }) => sporks.length > 0)).toHaveLength(2);
});

it.each([
  ['before', 'bb', 'has another id'],
  ['after', 'bb', 'has another id'],
  ['before', block(2, []).id, 'was voted for'],
  ['after', '', 'was voted for'],
])(
  'records no spork of which a node tells %s its root is written as %s, which is proven and %s, and says so once',
  async (when, sporkId) => {
    const told = [{ rootHeight: 2, sporkId }];
    const store = committing();
    const isTold = (): boolean => when === 'before' || store.batches.length > 1;
    const logger = new RecordingLogger();
    const { indexer } = indexing({ store, logger, sporkFor: () => (isTold() ? told[0] : undefined) });
    const put = async (height: number, vote: Uint8Array): Promise<unknown> => {
      const made = { ...block(height, []), proof: new Uint8Array(1) };
      const light = { ...made, timestamp: undefined, guarantees: [], signatures: [vote] };
      return indexer.onReceivedCollectionsForBlock({ ...made, encoded: encodeBlock(light) }, []);
    };
    for (const height of [1, 2, 3, 4]) await put(height, new Uint8Array(48));
    await indexer.recordLateSpork();
    expect(store.meta().sporks).toEqual([]);
    const fields = { height: 2, sporkId, blockId: block(2, []).id };
    const warnings = logger.of('warn');
    expect(warnings).toEqual([
      { level: 'warn', message: 'a node claims a spork that does not exist', fields },
    ]);
    told.splice(0, 1, { rootHeight: 5, sporkId: block(5, []).id });
    await put(5, new Uint8Array(0));
    expect(store.meta().sporks).toEqual(told);
  },
);

it('records the root that the spork table confirms without an id, where no node tells one', async () => {
  const rootParentId = block(1, []).id;
  const { store, put } = indexing({ rootParentAt: (height) => (height === 2 ? rootParentId : undefined) });
  store.auto = true;
  await Promise.all([put(1), put(2)]);
  expect(store.meta().sporks).toEqual([{ rootHeight: 2, sporkId: '', rootParentId }]);
});

it('begins no batch while there is no room, loses nothing of what waits, and can be stopped then', async () => {
  let isFull = false;
  let goOn = (): void => undefined;
  const whenRoom = (signal: AbortSignal): Promise<void> | undefined => {
    if (!isFull || signal.aborted) return undefined;
    return new Promise((resolve) => {
      goOn = resolve;
      signal.addEventListener('abort', () => resolve());
    });
  };
  const { store, put, indexer } = indexing({ room: { whenRoom } });
  const first = put(1, ['a']);
  await settle();
  isFull = true;
  const rest = [put(2, ['b']), put(3)];
  await settle();
  store.finish();
  expect(await first, 'the batch in hand is finished').toBe(true);
  await settle();
  expect(store.underWay).toBeUndefined();
  expect(indexer.commitStartedAtMs(), 'a pause is no slow disk').toBeUndefined();
  rest.push(put(4));
  store.auto = true;
  isFull = false;
  goOn();
  expect(await Promise.all(rest)).toEqual([true, true, true]);
  isFull = true;
  const refused = expect(put(5)).rejects.toThrow(AbortError);
  await settle();
  await Promise.all([indexer.stop(), refused]);
  expect(heightsOf(store)).toEqual([[1], [2, 3, 4]]);
});

it('finishes the batch in hand when it is stopped, and refuses the rest with AbortError', async () => {
  const { store, indexer, put } = indexing();
  const inHand = put(1);
  await settle();
  const waiting = put(2);
  let idle = false;
  const end = indexer.stop().then(() => (idle = true));
  await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
  await expect(put(3)).rejects.toMatchObject({ name: 'AbortError' });
  await settle();
  expect(idle).toBe(false);
  store.finish();
  expect(await inHand).toBe(true);
  await end;
  expect(heightsOf(store)).toEqual([[1]]);
  expect(await put(1)).toBe(false);
});

it('gives a failure of the store to everybody who waits, and to everybody who comes later', async () => {
  const { store, indexer, put } = indexing();
  const failure = new Error('disk full');
  const all = [put(1)];
  await settle();
  all.push(put(2));
  const ends = Promise.allSettled(all);
  store.fail(failure);
  for (const end of await ends) expect(end).toEqual({ status: 'rejected', reason: failure });
  await expect(put(3)).rejects.toBe(failure);
  expect(await indexer.stop()).toBe(false);
  expect(store.underWay).toBeUndefined();
});
