import { createHash } from 'node:crypto';
import { decodeBlockMessage, encodeBlock, encodeTransaction, toIdentifier } from '../../src/flow/index.js';
import type { Identifier, Timestamp, Transaction } from '../../src/flow/index.js';
import type { BlockEntry } from '../../src/storage/index.js';
import { makeCollection, signatureBy, transactionIdsOf } from './storeBlocks.js';

export const idOf = (word: string): Identifier => toIdentifier(createHash('sha3-256').update(word).digest());

/** A transaction with every field set, but for what the test sets itself. */
export function transactionWith(change: Partial<Transaction> = {}): Transaction {
  const [payer, other] = [Buffer.from('f8d6e0586b0a20c7', 'hex'), Buffer.from('01cf0e2f2f715450', 'hex')];
  return {
    script: Buffer.from('transaction { execute { log("hello") } }'),
    arguments: [Buffer.from('{"type":"UInt8","value":"1"}\n')],
    referenceBlockId: Buffer.alloc(32, 0xab),
    gasLimit: 9999n,
    proposalKey: { address: payer, keyId: 3, sequenceNumber: 42n },
    payer,
    authorizers: [payer, other],
    payloadSignatures: [signatureBy(other, 0, Buffer.from('first'))],
    envelopeSignatures: [signatureBy(payer, 3, Buffer.from('second'), Buffer.from([1, 2, 3]))],
    ...change,
  };
}

export const chainTime: Timestamp = { seconds: 1_767_225_600n, nanos: 120_000_000 };

/** Each block is given as the transactions of its collections. `timeAt`: the time of the block at an index. */
export function smallChain(
  firstHeight: number,
  blocks: readonly (readonly (readonly Transaction[])[])[],
  timeAt: (index: number) => Timestamp | undefined = () => chainTime,
  idAt = (height: number): Identifier => idOf(`block ${height}`),
): BlockEntry[] {
  return blocks.map((contents, index) => {
    const height = firstHeight + index;
    const collections = contents.map((transactions) => makeCollection(transactions.map(encodeTransaction)));
    const encoded = encodeBlock({
      id: idAt(height),
      parentId: idAt(height - 1),
      height,
      timestamp: timeAt(index),
      guarantees: collections.map(({ id }) => ({
        collectionId: id,
        referenceBlockId: Buffer.from(idOf('reference'), 'hex'),
        signature: Buffer.from('guarantee signature'),
        signatures: [],
        signerIds: [],
        signerIndices: Buffer.from([0xe0, 0x0f]),
        clusterChainId: Buffer.from('cluster-7-abc'),
      })),
      signatures: [Buffer.from('parent voters')],
    });
    return { block: decodeBlockMessage(encoded), collections };
  });
}

/** The same of so many blocks, each as `contentsAt` tells for its index. */
export function chainOf(
  firstHeight: number,
  blocks: number,
  contentsAt: (index: number) => readonly (readonly Transaction[])[],
): BlockEntry[] {
  return smallChain(
    firstHeight,
    Array.from({ length: blocks }, (_, index) => contentsAt(index)),
  );
}

/** The empty blocks of another chain, which leaves that of `smallChain` above a height. */
export function branchAbove(height: number, count: number): BlockEntry[] {
  const blocks = Array.from({ length: count }, () => []);
  return smallChain(height + 1, blocks, undefined, (each) =>
    idOf(`${each > height ? 'other ' : ''}block ${each}`),
  );
}

export function transactionIds(entry: BlockEntry, collectionIndex: number): Identifier[] {
  return transactionIdsOf(entry.collections[collectionIndex]!);
}
