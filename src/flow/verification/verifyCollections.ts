import type { BlockExecutionData, FinalizedBlock, Identifier, VerifiedCollection } from '../types.js';
import { CollectionBuffer } from './CollectionBuffer.js';
import { CollectionVerifier } from './CollectionVerifier.js';
import { InvalidCollectionError } from './InvalidCollectionError.js';
import { VerificationMemory } from './VerificationMemory.js';

/**
 * Checks that these transactions, in this order, are the collection with this id, and brings them into canonical
 * encoding. Canonical bytes are kept as they are; others lose unknown fields, repeated singular fields, explicit
 * defaults and non-minimal numbers, and keep every field value.
 *
 * Nodes sort a transaction's signatures by signer and key before they hash it. Wire order must be tried first: two
 * early sporks sorted inconsistently, and their transactions hash to their ids only in the order in which nodes hold
 * them. If the collection does not match, the sorted order is tried, and stored if it matches.
 *
 * Not covered by the id, and so not proven: whether an empty proposal key is present; the address of a signature whose
 * signer is none of proposer, payer and authorizers; extension data of a single zero byte; leading zeros of an address
 * and all but the last eight bytes of a longer one; trailing zeros of a reference block id and all but its first 32
 * bytes.
 *
 * Expected errors: `InvalidCollectionError` (`malformed`, `id_mismatch`).
 */
export function verifyCollection(
  expectedId: Identifier,
  transactions: readonly Uint8Array[],
  memory: VerificationMemory = new VerificationMemory(),
): VerifiedCollection {
  const verifier = new CollectionVerifier(memory, new CollectionBuffer([transactions], 1));
  const collection = verifier.verify(expectedId, transactions);
  if (collection === undefined) throw verifier.mismatch(expectedId);
  return collection;
}

/**
 * The collections of a block from its execution data. A chunk after those of the guarantees is the system chunk, whose
 * transactions no guarantee covers; it is dropped. Not every network has one: the emulator executes the guaranteed
 * collections and nothing else. Data without it are accepted where all chunks are proven to be those collections. A
 * peer has none to give.
 *
 * Expected errors: `InvalidCollectionError`: `wrong_block` for another block's data; `wrong_count` for any other number
 * of chunks, or for that of the guarantees where they are not the guaranteed collections (then one of those is missing,
 * not the system chunk); `wrong_order` for a collection of this block in another's place; and all of
 * `verifyCollection`.
 */
export function verifyBlockCollections(
  block: FinalizedBlock,
  data: BlockExecutionData,
  memory: VerificationMemory = new VerificationMemory(),
): VerifiedCollection[] {
  if (data.height !== block.height || data.blockId !== block.id) {
    throw new InvalidCollectionError(
      'wrong_block',
      `data of block ${data.blockId} at height ${data.height} were given for block ${block.id} at height ${block.height}`,
    );
  }
  const expected = block.collectionIds;
  const isWithoutSystem = data.isWithoutSystem === true;
  const hasSystemChunk = !isWithoutSystem && data.chunks.length === expected.length + 1;
  if (!hasSystemChunk && data.chunks.length !== expected.length) throw wrongCount(block, data);
  const verifier = new CollectionVerifier(memory, new CollectionBuffer(data.chunks, expected.length));
  return expected.map((expectedId, index) => {
    const collection = verifier.verify(expectedId, data.chunks[index] ?? []);
    if (collection !== undefined) return collection;
    // One of them may be the system chunk, and another one be missing.
    if (!hasSystemChunk && !isWithoutSystem) throw wrongCount(block, data);
    if (verifier.lastId !== undefined && expected.includes(verifier.lastId)) {
      throw new InvalidCollectionError(
        'wrong_order',
        `chunk ${index} of block ${block.id} holds collection ${verifier.lastId}, which belongs at another place`,
      );
    }
    throw verifier.mismatch(expectedId);
  });
}

function wrongCount(block: FinalizedBlock, { chunks }: BlockExecutionData): InvalidCollectionError {
  const expected = block.collectionIds.length;
  const held = `what came holds ${chunks.length} chunks`;
  const why =
    chunks.length === expected
      ? `${held}, which are not these collections`
      : `${held}, neither one for each nor these and the system chunk`;
  return new InvalidCollectionError(
    'wrong_count',
    `block ${block.id} guarantees ${expected} collections, ${why}`,
  );
}
