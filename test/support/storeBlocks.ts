import { collectionIdOf, encodeBlock, encodeTransaction, sha3, toIdentifier } from '../../src/flow/index.js';
import { transactionId, verifyCollection, ZERO_ID } from '../../src/flow/index.js';
import type { Identifier, TransactionSignature, VerifiedCollection } from '../../src/flow/index.js';
import type { BlockEntry, CommitBatch } from '../../src/storage/index.js';

/** A transaction in canonical wire form; the same seed gives the same one. */
export function makeTransaction(seed: string, scriptBytes = 40): Uint8Array {
  const address = sha3(Buffer.from(`address ${seed}`)).subarray(0, 8);
  return encodeTransaction({
    script: Buffer.alloc(scriptBytes, `// ${seed} `),
    arguments: [Buffer.from(`{"type":"String","value":"${seed}"}\n`)],
    referenceBlockId: sha3(Buffer.from('reference')),
    gasLimit: 9999n,
    proposalKey: { address, keyId: 0, sequenceNumber: 7n },
    payer: address,
    authorizers: [address],
    payloadSignatures: [],
    envelopeSignatures: [signatureBy(address, 0, Buffer.concat([sha3(Buffer.from(seed)), sha3(address)]))],
  });
}

export function signatureBy(
  address: Uint8Array,
  keyId: number,
  signature: Uint8Array,
  extensionData: Uint8Array = Buffer.alloc(0),
): TransactionSignature {
  return { address, keyId, signature, extensionData };
}

/** A collection of these transactions, under the id they hash to. */
export function makeCollection(transactions: readonly Uint8Array[]): VerifiedCollection {
  const id = collectionIdOf(Buffer.concat(transactions.map((wire) => transactionId(wire))));
  return verifyCollection(id, transactions);
}

/** A collection whose transactions are made from `seed/0`, `seed/1`, … */
export function seededCollection(seed: string, transactions: number, scriptBytes = 40): VerifiedCollection {
  return makeCollection(
    Array.from({ length: transactions }, (_, index) => makeTransaction(`${seed}/${index}`, scriptBytes)),
  );
}

/** `fork`: tells blocks of one height on one parent apart. */
export function makeBlock(
  height: number,
  parentId: Identifier,
  collections: readonly VerifiedCollection[],
  fork = '',
): BlockEntry {
  const id = toIdentifier(sha3(Buffer.from(`block ${height} on ${parentId}${fork}`)));
  const encoded = encodeBlock({
    id,
    parentId,
    height,
    timestamp: { seconds: 1_700_000_000n + BigInt(height), nanos: 5 },
    guarantees: collections.map((collection, index) => ({
      collectionId: collection.id,
      referenceBlockId: sha3(Buffer.from('reference')),
      signature: new Uint8Array(),
      signatures: [],
      signerIds: [],
      signerIndices: Buffer.of(index + 1, 0xff),
      clusterChainId: Buffer.from('cluster-0'),
    })),
    signatures: [sha3(Buffer.from(`voters ${height}`))],
  });
  const collectionIds = collections.map((collection) => collection.id);
  return { block: { id, parentId, height, collectionIds, encoded }, collections };
}

/** Consecutive blocks, each the child of the one before, with the given collections. */
export function makeChain(
  firstHeight: number,
  collectionsPerHeight: readonly (readonly VerifiedCollection[])[],
): BlockEntry[] {
  let parentId: Identifier = ZERO_ID;
  return collectionsPerHeight.map((collections, index) => {
    const entry = makeBlock(firstHeight + index, parentId, collections);
    parentId = entry.block.id;
    return entry;
  });
}

/** So many consecutive blocks, each with the collections of its index. */
export function chainWith(
  firstHeight: number,
  blocks: number,
  collectionsOf: (index: number) => readonly VerifiedCollection[],
): BlockEntry[] {
  return makeChain(
    firstHeight,
    Array.from({ length: blocks }, (_, index) => collectionsOf(index)),
  );
}

export function plainChain(firstHeight: number, blocks: number, transactions = 1): BlockEntry[] {
  return chainWith(firstHeight, blocks, (index) => [seededCollection(`of ${index}`, transactions)]);
}

/** Blocks that are committed together, up to the last of them. */
export function batchOf(...blocks: readonly BlockEntry[]): CommitBatch {
  return { blocks, latestIndexedHeight: blocks.at(-1)?.block.height ?? 0 };
}

export function transactionIdsOf({
  transactionIds,
}: Pick<VerifiedCollection, 'transactionIds'>): Identifier[] {
  return Array.from({ length: transactionIds.length / 32 }, (_, index) =>
    toIdentifier(transactionIds.subarray(index * 32, (index + 1) * 32)),
  );
}

export function transactionsOf({ encoded, ranges }: VerifiedCollection): Uint8Array[] {
  return Array.from({ length: ranges.length / 2 }, (_, index) => {
    const offset = ranges[2 * index]!;
    return encoded.subarray(offset, offset + ranges[2 * index + 1]!);
  });
}
