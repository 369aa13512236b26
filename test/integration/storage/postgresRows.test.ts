import { describe, expect, it } from 'vitest';
import { encodeTransaction, sha3 } from '../../../src/flow/index.js';
import type { Transaction } from '../../../src/flow/index.js';
import { asAdmin, countIn } from '../../support/postgresServer.js';
import { batchOf, makeChain, makeCollection } from '../../support/storeBlocks.js';
import { transactionWith } from '../../support/smallChain.js';
import { usePostgres } from '../../support/storeKinds.js';

const MAX_UINT64 = 0xffff_ffff_ffff_ffffn;
const address = (text: string): Buffer => sha3(Buffer.from(text)).subarray(0, 8);
const [alice, bob, carol] = [address('alice'), address('bob'), address('carol')] as const;

const with_ = (change: Partial<Transaction>): Uint8Array =>
  encodeTransaction(transactionWith({ payer: alice, authorizers: [alice], ...change }));
/** The same in other bytes: the gas limit first. */
const otherOrder = (): Uint8Array =>
  Buffer.concat([Buffer.from([0x20, 0x8f, 0x4e]), with_({ gasLimit: 0n })]);

const transactions: Readonly<Record<string, Uint8Array>> = {
  usual: with_({}),
  'three people': with_({ payer: bob, authorizers: [carol, alice, bob, carol] }),
  'the largest numbers': with_({
    gasLimit: MAX_UINT64,
    proposalKey: { address: bob, keyId: 0xffff_ffff, sequenceNumber: MAX_UINT64 },
  }),
  'numbers that fill half of their bits': with_({
    gasLimit: 0x8000_0000n,
    proposalKey: { address: bob, keyId: 0x8000_0000, sequenceNumber: 0xffff_ffffn },
  }),
  'nothing at all': new Uint8Array(),
  'no script': with_({ script: Buffer.alloc(0) }),
  'short and long addresses': with_({
    payer: Buffer.from([1, 2]),
    authorizers: [Buffer.from([1, 2]), Buffer.concat([Buffer.alloc(3, 9), bob])],
  }),
  'an empty authorizer': with_({ authorizers: [Buffer.alloc(0), alice] }),
  'more authorizers than are compared one by one': with_({
    authorizers: Array.from({ length: 70 }, (_, index) => address(`${index % 40}`)),
  }),
  'fields in another order': otherOrder(),
  'the usual script again': with_({ payer: carol }),
  'numbers that end in zeros': with_({
    gasLimit: 10_000n,
    proposalKey: { address: bob, keyId: 10_000, sequenceNumber: 1_200_000_000_000n },
  }),
  'numbers above what a double holds': with_({
    gasLimit: 2n ** 53n,
    proposalKey: { address: bob, keyId: 0, sequenceNumber: 10n ** 19n },
  }),
  'a large script': with_({ script: Buffer.alloc(300_000, 'x') }),
};

describe('the rows of transactions', () => {
  const postgres = usePostgres();

  it('say what the transactions say, however those are encoded, and have each script once', async () => {
    const all = Object.values(transactions);
    const chain = makeChain(10, [
      [makeCollection(all.slice(0, 5)), makeCollection(all.slice(5))],
      [],
      [makeCollection([with_({ payer: bob })])],
    ]);
    const { store, url } = await postgres.filled(10, chain.slice(0, 1));
    await store.commit(batchOf(...chain.slice(1)));
    expect(await postgres.verified(url)).toMatchObject({
      damages: [],
      transactions: all.length + 1,
      collections: 3,
    });
    const { rows } = await asAdmin(
      url,
      `SELECT gas_limit, sequence_number, proposer_key, encode(payer, 'hex') AS payer FROM flow.transaction
        ORDER BY height, collection_index, transaction_index`,
    );
    expect(rows[2]).toEqual({
      gas_limit: String(MAX_UINT64),
      sequence_number: String(MAX_UINT64),
      proposer_key: String(0xffff_ffff),
      payer: alice.toString('hex'),
    });
    expect(rows[6]).toMatchObject({ payer: '0000000000000102' });
    expect(await countIn(url, 'flow.script')).toBe(3);
  });
});
