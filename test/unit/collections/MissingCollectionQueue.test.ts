import { describe, expect, it } from 'vitest';
import { MissingCollectionQueue } from '../../../src/collections/index.js';
import { HeightRecord } from '../../../src/collections/heights/HeightRecord.js';
import type { Identifier } from '../../../src/flow/index.js';
import { block, id, received } from './meetingHarness.js';
import { windowOf } from '../../support/windowOf.js';

const nothing = (): void => undefined;

function queue(maxHeights = 4): MissingCollectionQueue {
  return new MissingCollectionQueue(windowOf(Infinity, { heights: maxHeights }));
}

function names(queued: HeightRecord | undefined): string[] {
  return queued!.collections().map((each) => Buffer.from(each.id, 'hex').toString().replaceAll('.', ''));
}

function heightsFor(mcq: MissingCollectionQueue, wanted: Identifier): number[] {
  return mcq.wanted(wanted)?.heights.map(({ height }) => height) ?? [];
}

describe('MissingCollectionQueue', () => {
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

  it('remembers the ids of one window of durable heights and no more', () => {
    const mcq = queue(2);
    for (const height of [1, 2, 3]) {
      mcq.enqueueMissingCollections(block(height, [`c${height}`]), 0, nothing);
      mcq.onReceivedCollection(received(`c${height}`, 'requester'));
      mcq.onIndexedForBlock(mcq.get(height)!);
    }
    const decisions = [1, 2, 3].map((h) => mcq.onReceivedCollection(received(`c${h}`, 'edi')).decision);
    expect(decisions).toEqual(['unsolicited', 'duplicate', 'duplicate']);
  });

  it('queues the linked block of a height and no other, and replaces none that is not there', () => {
    const window = windowOf(Infinity, { heights: 4 });
    const mcq = new MissingCollectionQueue(window);
    window.link(block(1, ['a']));
    expect(() => mcq.enqueueMissingCollections(block(1, ['b'], 'other'), 0, nothing)).toThrow(
      'other than the linked one',
    );
    expect(mcq.replaceBlock(block(1, ['b'], 'other'))?.status).toBe('linked');
    expect(mcq.replaceBlock(block(2, []))).toBeUndefined();
  });

  it('replaces the block of an incomplete height and keeps what the new one wants', () => {
    const mcq = queue();
    mcq.enqueueMissingCollections(block(1, ['a', 'lie', 'b']), 7, nothing);
    mcq.enqueueMissingCollections(block(2, ['lie']), 8, nothing);
    mcq.onReceivedCollection(received('a', 'requester'));
    const queued = mcq.replaceBlock(block(1, ['b', 'a', 'c', 'a'], 'true'));
    expect(queued?.queuedAtMs).toBe(7);
    expect(mcq.missingIds(1)).toEqual([id('b'), id('c')]);
    expect(heightsFor(mcq, id('lie'))).toEqual([2]);
    mcq.onReceivedCollection(received('b', 'edi'));
    mcq.onReceivedCollection(received('c', 'edi'));
    expect(names(mcq.get(1))).toEqual(['b', 'a', 'c', 'a']);
    expect(queued?.received.size).toBe(3);
    expect(mcq.replaceBlock(block(1, ['z']))).toBeUndefined();
    expect(mcq.replaceBlock(block(9, ['z']))).toBeUndefined();
    // A height whose new block wants nothing more is complete.
    const one = queue();
    one.enqueueMissingCollections(block(1, ['a', 'lie']), 0, nothing);
    one.onReceivedCollection(received('a', 'edi'));
    expect(one.replaceBlock(block(1, ['a'], 'true'))).toMatchObject({ missingCount: 0, source: 'edi' });
    expect([one.lowest(), one.missingCollections]).toEqual([undefined, 0]);
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
});
