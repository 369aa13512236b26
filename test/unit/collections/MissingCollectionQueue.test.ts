import { expect, it } from 'vitest';
import { MissingCollectionQueue } from '../../../src/collections/index.js';
import { HeightRecord } from '../../../src/collections/heights/HeightRecord.js';
import { block, id, received } from './meetingHarness.js';
import { windowOf } from '../../support/windowOf.js';

const nothing = (): void => undefined;

function queue(maxHeights = 4): MissingCollectionQueue {
  return new MissingCollectionQueue(windowOf(Infinity, { heights: maxHeights }));
}

it('knows the lowest height that an id belongs to, as its block or as a collection, received or not', () => {
  const mcq = queue();
  mcq.enqueueMissingCollections(block(2, ['a', 'b']), 0, nothing);
  mcq.enqueueMissingCollections(block(1, ['a']), 0, nothing);
  mcq.onReceivedCollection(received('b', 'edi'));
  expect(mcq.naming(id('a'))).toEqual({ kind: 'collection', height: 1 });
  expect(mcq.naming(id('b'))).toEqual({ kind: 'collection', height: 2 });
  expect(mcq.naming(block(2, []).id)).toEqual({ kind: 'block', height: 2 });
  expect(mcq.naming(id('c'))).toBeUndefined();
});

it('queues the linked block of a height and no other, and replaces none that was not queued', () => {
  const window = windowOf(Infinity, { heights: 4 });
  const mcq = new MissingCollectionQueue(window);
  window.link(block(1, ['a']));
  expect(() => mcq.enqueueMissingCollections(block(1, ['b'], 'other'), 0, nothing)).toThrow(
    'other than the linked one',
  );
  expect([mcq.replaceBlock(block(1, ['b'], 'other')), mcq.replaceBlock(block(2, []))]).toEqual([
    undefined,
    undefined,
  ]);
});

it('holds its bounds, and lets no incomplete or unknown height go as indexed', () => {
  const mcq = queue(2);
  mcq.enqueueMissingCollections(block(1, ['a']), 0, nothing);
  expect(() => mcq.enqueueMissingCollections(block(1, ['a']), 0, nothing)).toThrow('queued twice');
  mcq.enqueueMissingCollections(block(2, ['b']), 0, nothing);
  expect(() => mcq.enqueueMissingCollections(block(3, ['c']), 0, nothing)).toThrow('one too many');
  expect(() => mcq.onIndexedForBlock(mcq.get(1)!)).toThrow('before it was complete');
  expect(() => mcq.onIndexedForBlock(new HeightRecord(block(2, [])))).toThrow('before it was complete');
  expect(() => mcq.get(1)!.collections()).toThrow('still lacks');
});
