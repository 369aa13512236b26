import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { ReverseIndex } from '../../../src/devnet/chain/ReverseIndex.js';
import { Chain, profiles } from '../../../src/devnet/index.js';
import { identifierBytes } from '../../../src/flow/index.js';

const profile = { odd: { ...profiles.mixed.odd, bigCollection: 0 } };

describe('finding things by id', () => {
  it('finds every collection and transaction of the blocks it gave, at the lowest height that holds them', () => {
    const chain = new Chain({ profile });
    const lowest = new Map<string, number>();
    const transactions = new Map<string, number>();
    for (let height = 1; height < 200; height++) {
      for (const { id, transactionIds } of chain.block(height).collections) {
        if (!lowest.has(id)) lowest.set(id, height);
        for (let at = 0; at < transactionIds.length; at += 32) {
          const hex = transactionIds.toString('hex', at, at + 32);
          if (!transactions.has(hex)) transactions.set(hex, height);
        }
      }
    }
    for (const [id, height] of lowest) {
      const place = chain.findCollection(Buffer.from(id, 'hex'));
      // Empty collections all have one id; where the last one was seen is as good as any other place.
      if (place?.block.collections[place.index]?.transactions.length !== 0)
        expect(place?.block.height).toBe(height);
      expect(place?.block.collections[place.index]?.id).toBe(id);
    }
    for (const [id, height] of transactions) {
      expect(chain.findTransaction(Buffer.from(id, 'hex'))?.block.height).toBe(height);
    }
  });

  it('finds what a client learned before the node was restarted, near the height it asks for now', () => {
    const before = new Chain({ profile: 'dense' });
    const [known] = before.block(500_000).collections;
    const after = new Chain({ profile: 'dense' });
    const id = identifierBytes(known?.id ?? before.block(1).id);
    expect(after.findCollection(id)).toBeUndefined();
    after.block(500_100);
    expect(after.findCollection(id)?.block.height).toBe(500_000);
    expect(after.findTransaction(known?.transactionIds.subarray(0, 32) ?? id)?.block.height).toBe(500_000);
  });

  it('does not find what is not of the chain', () => {
    const chain = new Chain({ profile });
    chain.block(10);
    expect(chain.findCollection(Buffer.alloc(32, 7))).toBeUndefined();
    expect(chain.findTransaction(Buffer.alloc(32, 7))).toBeUndefined();
    expect(chain.locate(Buffer.alloc(32, 7))).toBeUndefined();
    expect(chain.locate(Buffer.alloc(31, 7))).toBeUndefined();
  });

  it('keeps at least the promised number of them, however many follow', () => {
    const index = new ReverseIndex({ entries: 50 });
    const hashOf = (height: number): Buffer => createHash('sha256').update(String(height)).digest();
    for (let height = 1; height <= 500; height += 1) {
      index.add(hashOf(height), 0, height);
      const kept = Math.max(1, height - 49);
      expect(index.find(hashOf(kept))).toBe(kept);
    }
    expect(index.find(hashOf(1))).toBeUndefined();
  });
});
