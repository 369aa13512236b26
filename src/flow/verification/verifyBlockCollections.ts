import type { BlockExecutionData, FinalizedBlock, VerifiedCollection } from '../types.js';
import { CollectionBuffer } from './CollectionBuffer.js';
import { CollectionVerifier } from './CollectionVerifier.js';
import { InvalidCollectionError } from './InvalidCollectionError.js';
import { VerificationMemory } from './VerificationMemory.js';

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
