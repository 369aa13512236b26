import { describe, expect, it } from 'vitest';
import { Chain, INDEXED_COLLECTIONS, profiles } from '../../../src/devnet/index.js';
import { identifierBytes } from '../../../src/flow/index.js';

const profile = { odd: { ...profiles.mixed.odd, bigCollection: 0 } };

describe('finding things by id', () => {
  it('finds every collection and transaction of the blocks it gave, at the lowest height that holds them', () => {
    const chain = new Chain({ profile });
    const lowest = new Map<string, number>();
    const transactions = new Map<string, number>();
    for (let height = 1; height < 500; height++) {
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

  it('finds what a client learned elsewhere that catches up from the root, however high the head is that it asks for', () => {
    const elsewhere = new Chain({ profile: 'dense' });
    const chain = new Chain({ profile: 'dense' });
    for (const height of [10, 60, 110]) {
      chain.block(3_000);
      const [{ id } = { id: elsewhere.block(1).id }] = elsewhere.block(height).collections;
      expect(chain.findCollection(identifierBytes(id))?.block.height).toBe(height);
    }
  });

  it('does not find what is not of the chain', () => {
    const chain = new Chain({ profile });
    chain.block(10);
    expect(chain.findCollection(Buffer.alloc(32, 7))).toBeUndefined();
    expect(chain.findTransaction(Buffer.alloc(32, 7))).toBeUndefined();
    expect(chain.locate(Buffer.alloc(32, 7))).toBeUndefined();
    expect(chain.locate(Buffer.alloc(31, 7))).toBeUndefined();
  });

  it('keeps at least the promised number of collections, however many follow', () => {
    const small = {
      emptyShare: 0,
      collectionsPerBlock: { min: 1000, max: 1000 },
      transactionsPerCollection: { min: 1, max: 1 },
      transactionBytes: { min: 0, max: 0 },
      odd: {},
    };
    const chain = new Chain({ profile: small, cacheBytes: 1 });
    const heights = Math.floor(INDEXED_COLLECTIONS / 1000);
    const [first] = chain.block(1).collections;
    for (let height = 2; height <= heights; height++) chain.block(height);
    expect(chain.findCollection(identifierBytes(first?.id ?? chain.block(1).id))?.block.height).toBe(1);
  });
});
