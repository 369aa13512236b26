import { describe, expect, it } from 'vitest';
import { Chain, ChainGenerator, profiles } from '../../../src/devnet/index.js';
import { decodeTransaction, transactionId } from '../../../src/flow/index.js';
import { loadMessages } from '../../support/flowWire.js';

const profile = { odd: { ...profiles.mixed.odd, bigCollection: 0 }, trieUpdateBytes: 4096 };
const chain = new Chain({ profile, rootHeight: 1000 });
const message = loadMessages()('flow.executiondata.SubscribeExecutionDataResponse');

interface Decoded {
  readonly block_height: string;
  readonly block_timestamp: { readonly seconds: string };
  readonly block_execution_data: {
    readonly chunk_execution_data: readonly {
      readonly collection: { readonly transactions: readonly object[] };
      readonly events: readonly {
        readonly type: string;
        readonly transaction_id: Buffer;
        readonly transaction_index: number;
        readonly event_index: number;
      }[];
      readonly trieUpdate: {
        readonly root_hash: Buffer;
        readonly paths: readonly Buffer[];
        readonly payloads: readonly { readonly keyPart: readonly unknown[]; readonly value: Buffer }[];
      };
      readonly transaction_results: readonly { readonly transaction_id: Buffer; readonly failed: boolean }[];
    }[];
  };
}

function decode(height: number): Decoded {
  const options = { longs: String, bytes: Buffer, defaults: true };
  return message.toObject(message.decode(chain.executionData(height)), options) as unknown as Decoded;
}

describe('execution data', () => {
  it('ends with a system chunk that no guarantee covers, and has none at all at the root', () => {
    expect(decode(1000).block_execution_data.chunk_execution_data).toEqual([]);
    for (let height = 1001; height < 1060; height++) {
      const chunks = decode(height).block_execution_data.chunk_execution_data;
      expect(chunks).toHaveLength(chain.block(height).collections.length + 1);
      expect(chunks.at(-1)?.collection.transactions.length).toBeGreaterThanOrEqual(2);
    }
  });

  it('is full of what an indexer skips, and all of it is well-formed', () => {
    for (let height = 1001; height < 1040; height++) {
      const decoded = decode(height);
      const block = chain.block(height);
      // The server never fills the time source of this stream.
      expect(decoded.block_timestamp.seconds).toBe('-62135596800');
      let transactionIndex = 0;
      let trieBytes = 0;
      for (const [index, chunk] of decoded.block_execution_data.chunk_execution_data.entries()) {
        const count = chunk.collection.transactions.length;
        const ids = block.collections[index]?.transactionIds;
        expect(chunk.transaction_results).toHaveLength(count);
        if (ids !== undefined) {
          expect(
            Buffer.concat(chunk.transaction_results.map(({ transaction_id }) => transaction_id)).equals(ids),
          ).toBe(true);
        }
        expect(chunk.events).toHaveLength(2 * count);
        for (const [place, event] of chunk.events.entries()) {
          expect(event.transaction_index).toBe(transactionIndex + Math.floor(place / 2));
          expect(event.event_index).toBe(place % 2);
          expect(event.transaction_id).toEqual(
            chunk.transaction_results[Math.floor(place / 2)]?.transaction_id,
          );
        }
        transactionIndex += count;
        expect(chunk.trieUpdate.root_hash).toHaveLength(32);
        expect(chunk.trieUpdate.paths).toHaveLength(chunk.trieUpdate.payloads.length);
        for (const payload of chunk.trieUpdate.payloads) {
          expect(payload.keyPart).toHaveLength(1);
          trieBytes += payload.value.length;
        }
      }
      expect(trieBytes).toBeGreaterThan(1500);
    }
  });
});

describe('the system chunk', () => {
  it('is process, scheduled and system transactions, without proposer, payer, reference block or signatures', () => {
    const generator = new ChainGenerator({
      chainId: 'flow-mainnet',
      profile: { scheduledTransactions: { min: 3, max: 3 } },
    });
    const wires = generator.systemTransactions(7);
    expect(wires).toHaveLength(5);
    for (const transaction of wires.map(decodeTransaction)) {
      expect(transaction.proposalKey).toBeUndefined();
      expect(transaction.payer).toHaveLength(0);
      expect(transaction.referenceBlockId).toHaveLength(0);
      expect(transaction.payloadSignatures).toEqual([]);
      expect(transaction.envelopeSignatures).toEqual([]);
      expect(transaction.authorizers.map((one) => Buffer.from(one).toString('hex'))).toEqual([
        'e467b9dd11fa00df',
      ]);
    }
  });

  it('repeats its first and last transaction in every block; scheduled ones are new each time', () => {
    const generator = new ChainGenerator({ profile: { scheduledTransactions: { min: 1, max: 1 } } });
    const [first, second] = [generator.systemTransactions(7), generator.systemTransactions(8)];
    expect(first[0]).toEqual(second[0]);
    expect(first[2]).toEqual(second[2]);
    expect(first[1]).not.toEqual(second[1]);
    const repeated = [...generator.repeatedSystemTransactions.keys()];
    expect(repeated).toEqual(
      [first[0], first[2]].map((wire) => transactionId(wire ?? Buffer.alloc(0)).toString('hex')),
    );
  });

  it('was one transaction before there were scheduled ones', () => {
    const generator = new ChainGenerator({ profile: { scheduledTransactions: undefined } });
    expect(generator.systemTransactions(7)).toHaveLength(1);
  });
});
