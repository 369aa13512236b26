import { expect, it } from 'vitest';
import { MissingCollectionQueue } from '../../../src/collections/index.js';
import { HeightRecord } from '../../../src/collections/heights/HeightRecord.js';
import { windowOf } from '../../support/windowOf.js';
import { block, id, meeting, received, settle } from './meetingHarness.js';

function bounded(options: { readonly stopHeight?: number; readonly share?: () => number } = {}) {
  const at = { watermark: 10, head: undefined as number | undefined };
  const store = { latestIndexedHeight: () => at.watermark, hasHeight: () => false };
  return { at, window: windowOf(store, { heights: 5, head: () => at.head, ...options }) };
}

function holding(limitBytes: number, watermark = 0) {
  const window = windowOf(watermark, { heights: 8, limitBytes });
  const mcq = new MissingCollectionQueue(window);
  const take = (height: number, ...names: string[]) =>
    mcq.enqueueMissingCollections(
      block(height, names.length > 0 ? names : [`of ${height}`]),
      0,
      () => undefined,
    );
  return { window, mcq, take };
}

it('Window is bounded by K, by the head and by the stop height, whichever is lowest', () => {
  expect(() => windowOf(0, { heights: 0 })).toThrow('a window has at least one height, not 0');
  const { at, window } = bounded({ stopHeight: 14 });
  expect([window.limit(), window.target(), window.upperBound()]).toEqual([15, undefined, 0]);
  at.head = 12;
  expect([window.target(), window.upperBound()]).toEqual([12, 12]);
  at.head = 100;
  expect([window.target(), window.upperBound()]).toEqual([14, 14]);
  at.watermark = 2;
  expect([window.limit(), window.upperBound()]).toEqual([7, 7]);
});

it('Window is certain of proven guarantees, and of a block that the next one follows', () => {
  const { window } = bounded();
  const certain = (height: number) =>
    (['guarantees', 'block'] as const).filter((of) => window.isCertain(height, of));
  window.link({ ...block(11, []), proof: new Uint8Array(1) });
  window.link(block(12, []));
  expect([11, 12, 13].map(certain)).toEqual([['guarantees', 'block'], [], []]);
  window.link({ ...block(13, []), parentId: block(12, []).id });
  expect([12, 13].map(certain)).toEqual([['block'], []]);
  window.link({ ...block(12, []), id: id('other') }, { name: 'late', method: 'GetBlockByHeight' });
  expect(window.at(12)).toMatchObject({ block: block(12, []), blockSource: undefined });
  window.link(block(12, []), { name: 'again', method: 'GetBlockByHeight' });
  expect(window.at(12)?.blockSource?.name).toBe('again');
  expect(window.blockAt(12)).toBeUndefined();
  window.unlink(12);
  expect([window.at(12), window.isCertain(11, 'block')]).toEqual([undefined, false]);
});

it('Window begins less by its share, but a block and its child in any case', () => {
  let share = 1;
  const { at, window } = bounded({ share: () => share });
  at.head = 100;
  const bounds = [1, 0.61, 0.5, 0.001].map((each) => {
    share = each;
    return [window.upperBound(), window.limit()];
  });
  expect(bounds).toEqual([
    [15, 15],
    [13, 15],
    [12, 15],
    [12, 15],
  ]);
});

it('Window forgets what a line left undone, and counts from the watermark again', () => {
  const { window, mcq, take } = holding(10);
  take(3, 'a', 'b');
  mcq.onReceivedCollection(received('a', 'edi', 0, 8));
  window.clear();
  expect([window.inHand, window.collecting, window.bytesInHand, [...window.all()]]).toEqual([0, 0, 0, []]);
  expect([window.admits(9, 10), window.at(3)]).toEqual([true, undefined]);
  new MissingCollectionQueue(window).enqueueMissingCollections(block(2, ['c']), 0, () => undefined);
  expect(window.lowestCollecting()?.height).toBe(2);
});

it('Window admits up to the limit, and the height above the watermark beyond it while it lacks something', () => {
  const { window, mcq, take } = holding(100, 4);
  take(5);
  take(7);
  expect(window.admits(7, 100)).toBe(true);
  expect(window.admits(7, 101)).toBe(false);
  expect(window.admits(5, 101)).toBe(true);
  mcq.onReceivedCollection(received('of 7', 'edi', 0, 100));
  expect([window.admits(6, 1), window.admits(5, 1), window.admits(6, 0)]).toEqual([false, true, true]);
  mcq.onReceivedCollection(received('of 5', 'edi', 0, 0));
  expect(window.admits(5, 1)).toBe(false);
});

it('Window wakes those who wait at a new block, a delivery, a durable commit and a new head', async () => {
  const { window, run, answer, store } = meeting();
  let woken = 0;
  const wait = (): void => void window.changed(new AbortController().signal).then(() => (woken += 1));
  const steps = [() => run(block(1, ['a'])), () => answer('a'), () => store.finish(), () => window.notify()];
  for (const step of steps) {
    wait();
    wait();
    await settle();
    const before = woken;
    step();
    await settle();
    expect(woken - before).toBe(2);
  }
});

it.each([
  ['collecting', 0, 'linked', 'and lacks 0'],
  ['complete', 1, 'linked', 'and lacks 1'],
  ['durable', 1, 'complete', 'and lacks 1'],
  ['linked', 0, 'complete', 'from complete to linked'],
] as const)(
  'the life of a height enters %s only with what that promises, lacking %i, from %s: %s',
  (to, missing, from, said) => {
    const record = new HeightRecord(block(1, ['a']));
    if (from !== 'linked') record.moveTo(from);
    record.missingCount = missing;
    expect(() => record.moveTo(to)).toThrow(said);
    expect(record.status).toBe(from);
  },
);
