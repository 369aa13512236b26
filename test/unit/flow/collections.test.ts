import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { collectionIdOf, encodeFullCollection, encodeTransaction } from '../../../src/flow/index.js';
import { identifyTransactions, InvalidCollectionError, splitCollection } from '../../../src/flow/index.js';
import { toIdentifier, transactionId, VerificationMemory } from '../../../src/flow/index.js';
import { verifyBlockCollections, verifyCollection, WireError, ZERO_ID } from '../../../src/flow/index.js';
import type { BlockExecutionData, FinalizedBlock, Identifier, Transaction } from '../../../src/flow/index.js';
import { type InvalidCollectionReason } from '../../../src/flow/verification/InvalidCollectionError.js';
import { choices, inHex, scrambled, transaction, transactionFields } from '../../support/flowWire.js';
import { signatureBy, transactionsOf, transactionWith } from '../../support/index.js';

const collection = fc.array(transaction, { maxLength: 5 });

function idOf(wires: readonly Uint8Array[]): Identifier {
  return collectionIdOf(Buffer.concat(wires.map(transactionId)));
}

function reasonOf(run: () => unknown): InvalidCollectionReason | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    if (error instanceof InvalidCollectionError) return error.reason;
    throw error;
  }
}

it('collections that hash to their id are verified, split into their transactions, each with its id, and brought into canonical encoding', () => {
  fc.assert(
    fc.property(collection, choices, (transactions, choose) => {
      const canonical = transactions.map(encodeTransaction);
      const some = transactions.map((tx) =>
        choose(3) === 0 ? encodeTransaction(tx) : scrambled(transactionFields(tx), choose),
      );
      const id = idOf(canonical);
      const ids = Buffer.concat(canonical.map(transactionId));
      for (const wires of [canonical, some]) {
        const verified = verifyCollection(id, wires);
        const { encoded: stored, transactionIds } = verified;
        expect(verified.id).toBe(id);
        expect(inHex([stored, transactionIds])).toEqual(inHex([encodeFullCollection(canonical), ids]));
        for (const split of [transactionsOf(verified), splitCollection(stored)])
          expect(inHex(split)).toEqual(inHex(canonical));
        // Not at the front of its memory, like a body that the store gives.
        const encoded = Buffer.concat([Buffer.from('before'), encodeFullCollection(wires)]).subarray(6);
        const found = identifyTransactions(encoded);
        expect(inHex(found.map((each) => each.encoded))).toEqual(inHex(wires));
        expect(found.map(({ id }) => id)).toEqual(inHex(canonical.map(transactionId)));
      }
    }),
    { numRuns: 30 },
  );
});

it('collections keep no hold of the message they came in, and take no memory for more transactions than can be', () => {
  const wire = encodeTransaction(signed([1, 2]));
  const expected = Buffer.from(encodeFullCollection([wire]));
  const { encoded } = verifyCollection(idOf([wire]), [wire]);
  wire.fill(0);
  expect(Buffer.from(encoded)).toEqual(expected);
  const message = Buffer.from('0a00'.repeat(100_001), 'hex');
  expect(() => splitCollection(message)).toThrow(WireError);
  expect(splitCollection(message.subarray(2))).toHaveLength(100_000);
});

function signed(keys: readonly number[]): Transaction {
  const { payer } = transactionWith();
  const envelopeSignatures = keys.map((keyId) => signatureBy(payer, keyId, Buffer.alloc(64, keyId)));
  return transactionWith({ authorizers: [payer], payloadSignatures: [], envelopeSignatures });
}

describe('signatures in another order than the node hashed', () => {
  it('are sorted by signer, unknown signers in front, and by key, and stored as they are hashed', () => {
    const [payer, other, unknown] = ['f8d6e0586b0a20c7', '0000000000000002', '0000000000000003'].map((each) =>
      Buffer.from(each, 'hex'),
    );
    const ordered = (
      [
        [unknown!, 9],
        [payer!, 5],
        [other!, 0],
        [other!, 1],
      ] as const
    ).map(([address, keyId]) => signatureBy(address, keyId, Buffer.from([keyId])));
    const signedBy = (all: Transaction['payloadSignatures']): Buffer[] => {
      const changes = { authorizers: [payer!, other!], payloadSignatures: all, envelopeSignatures: all };
      return [encodeTransaction({ ...signed([]), ...changes })];
    };
    const sorted = signedBy(ordered);
    const verified = verifyCollection(idOf(sorted), signedBy(ordered.toReversed()));
    expect(splitCollection(verified.encoded)).toEqual(sorted);
    expect(Buffer.from(verified.transactionIds)).toEqual(transactionId(sorted[0]!));
  });

  // Two early sporks sorted signatures inconsistently, so that some of their transactions are hashed in an order that no rule
  // of ours gives, beside others that are sorted. Whoever sorts first computes another id for those, and holds a true
  // collection for a lie: for good, because every node has it in this order and no other.
  it('are tried as they come first: early sporks hashed some in an order that sorting would destroy', () => {
    const unsorted = encodeTransaction(signed([2, 0, 1]));
    const sorted = encodeTransaction(signed([0, 1, 2]));
    expect(transactionId(unsorted)).not.toEqual(transactionId(sorted));
    for (const wires of [[unsorted], [sorted, unsorted], [unsorted, sorted, unsorted]]) {
      const verified = verifyCollection(idOf(wires), wires);
      expect(splitCollection(verified.encoded)).toEqual(wires);
      expect(Buffer.from(verified.transactionIds)).toEqual(Buffer.concat(wires.map(transactionId)));
    }
  });
});

const one = [signed([1]), signed([2])].map(encodeTransaction);
const two = [signed([3])].map(encodeTransaction);
const system = [signed([])].map(encodeTransaction);
const blockId = toIdentifier(Buffer.alloc(32, 5));

const block = (...collections: Uint8Array[][]): FinalizedBlock => ({
  id: blockId,
  parentId: ZERO_ID,
  height: 12,
  collectionIds: collections.map(idOf),
  encoded: new Uint8Array(0),
});
const data = (...chunks: Uint8Array[][]): BlockExecutionData => ({
  height: 12,
  blockId,
  chunks,
  byteLength: 1000,
});

it.each<[string, readonly Uint8Array[][], readonly Uint8Array[][]]>([
  ['all chunks but the system chunk', [one, two], [one, two, system]],
  ['none where the block guarantees none', [], [system]],
  ['none in a root block, which has no chunk at all', [], []],
  // Each proves to be the one of its place.
  ['all chunks on a network without a system chunk', [one, two, one], [one, two, one]],
  ['the only chunk there, though it is empty', [[]], [[]]],
  ['empty where their chunks are', [[]], [[], system]],
  ['the same twice where they are', [one, one], [one, one, system]],
  ['the same whatever the system chunk holds', [one], [one, [Buffer.from('no transaction')]]],
])('the collections of a block are %s', (_, collections, chunks) => {
  const verified = verifyBlockCollections(block(...collections), data(...chunks));
  expect(verified.map((each) => each.id)).toEqual(collections.map(idOf));
  expect(verified.map((each) => splitCollection(each.encoded))).toEqual(collections);
});

it('the collections of a block are the same whatever was verified before in the same memory, and stay what they were', () => {
  const wires = (chunks: readonly (readonly Transaction[])[]): Uint8Array[][] =>
    chunks.map((chunk) => chunk.map(encodeTransaction));
  // Some are larger than what is kept, some are in another encoding than the one that is stored.
  const large: Transaction = { ...signed([4]), script: Buffer.alloc(40_000, 0x41) };
  const chunks = fc.array(fc.oneof(collection, fc.constant<Transaction[]>([large])), { maxLength: 4 });
  const unknownField = Buffer.from([0xf8, 0x07, 0x01]);
  fc.assert(
    fc.property(fc.array(fc.tuple(chunks, fc.boolean()), { maxLength: 4 }), (blocks) => {
      const memory = new VerificationMemory();
      const kept = blocks.map(([transactions, isOdd]) => {
        const collections = wires(transactions);
        const sent = isOdd
          ? collections.map((chunk) => chunk.map((wire) => Buffer.concat([wire, unknownField])))
          : collections;
        const verified = verifyBlockCollections(block(...collections), data(...sent, system), memory);
        return { verified, collections };
      });
      for (const { verified, collections } of kept) {
        const hold = collections.map((chunk, index) => {
          const { encoded = Buffer.alloc(0), transactionIds = Buffer.alloc(0) } = verified[index] ?? {};
          const ids = Buffer.concat(chunk.map(transactionId));
          return ids.equals(transactionIds) && Buffer.from(encodeFullCollection(chunk)).equals(encoded);
        });
        expect(hold).toEqual(verified.map(() => true));
      }
    }),
    { numRuns: 20 },
  );
});

it.each<[string, InvalidCollectionReason, FinalizedBlock, BlockExecutionData]>([
  ['guarantees but no chunk', 'wrong_count', block(one), data()],
  ['no system chunk and another order', 'wrong_count', block(one, two), data(two, one)],
  ['no system chunk and another body', 'wrong_count', block(one, two), data(one, one)],
  ['no system chunk and a transaction missing', 'wrong_count', block(one), data(one.slice(1))],
  ['the system chunk in the place of the only collection', 'wrong_count', block(one), data(system)],
  ['a chunk missing', 'wrong_count', block(one, two), data(one, system)],
  ['a chunk too many', 'wrong_count', block(one), data(one, two, system)],
  ['chunks without guarantees', 'wrong_count', block(), data(one, system)],
  ['chunks in another order', 'wrong_order', block(one, two), data(two, one, system)],
  ['a collection twice that should come once', 'wrong_order', block(one, two), data(one, one, system)],
  ['the system chunk in front', 'id_mismatch', block(one), data(system, one)],
  ['another body', 'id_mismatch', block(one), data(two, system)],
  ['a transaction missing', 'id_mismatch', block(one), data(one.slice(1), system)],
  ['a transaction cut short', 'malformed', block(one), data([one[0]!.subarray(1), one[1]!], system)],
  ['another block', 'wrong_block', block(one), { ...data(one, system), blockId: ZERO_ID }],
  ['another height', 'wrong_block', block(one), { ...data(one, system), height: 13 }],
])('the collections of a block are refused with %s', (_, reason, of, from) => {
  expect(reasonOf(() => verifyBlockCollections(of, from))).toBe(reason);
});
