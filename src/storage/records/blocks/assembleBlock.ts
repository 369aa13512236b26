import { asBuffer, decodeBlockMessage, InvalidCollectionError } from '../../../flow/index.js';
import { splitCollection, verifyCollection, WireError } from '../../../flow/index.js';
import type { FinalizedBlock, Identifier, VerificationMemory } from '../../../flow/index.js';
import type { VerifiedCollection } from '../../../flow/index.js';
import { BlockHasher, checkStoredProof } from '../../../proof/index.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import type { WholeBlock } from '../../port/stored.js';
import { corruptRecord } from '../../StorageError.js';
import type { CollectionShape } from '../coding/blockRecord.js';
import type { Database } from '../Database.js';
import { blockKey } from '../schema.js';
import { collectionsIn, openBlockRecord, readBody, wholeBody, type ReadBlock } from './readBlocks.js';

/**
 * A stored block as it was committed, from its stored values (those of its body by chunk), with everything checked: checksums, canonical encodings,
 * counts, every transaction and collection rehashed, and with `holds` its proof.
 *
 * Expected errors: `StorageError` (`corrupt`).
 */
export function assembleEntry(
  height: number,
  record: Buffer,
  body: ReadonlyMap<number, Buffer>,
  holds?: (block: FinalizedBlock) => boolean,
): BlockEntry {
  const read = openBlockRecord(blockKey(height), record, height);
  const bytes = wholeBody(read, (chunk) => body.get(chunk));
  return soundEntry(read, bytes, holds);
}

function soundEntry(read: ReadBlock, bytes: Buffer, holds?: (block: FinalizedBlock) => boolean): BlockEntry {
  const { block, shapes } = read;
  const { height } = block;
  if (Buffer.compare(decodeBlockMessage(block.encoded).encoded, block.encoded) !== 0) {
    throw corruptRecord('block record', height, 'the block is not in canonical encoding');
  }
  if (holds?.(block) === false)
    throw corruptRecord('block record', height, 'the block does not hash to its id');
  const entry = verifiedBlock({ block, bodies: collectionsIn(read, bytes) });
  for (const [index, { ranges }] of entry.collections.entries()) {
    if (ranges.length !== 2 * (shapes[index] as CollectionShape).transactionCount)
      throw corruptRecord('block record', height, `collection ${index} has another number of transactions`);
  }
  return entry;
}

/** Tells whether a block that has a proof hashes to its id: header, guarantees and all. One without has nothing to check. */
export function proofChecker(chainId: string): (block: FinalizedBlock) => boolean {
  const hasher = new BlockHasher();
  return ({ encoded, proof }) =>
    proof === undefined || checkStoredProof(encoded, proof, chainId, hasher) !== undefined;
}

/**
 * A block that was read with its bodies, every transaction and collection rehashed. Expected errors: `StorageError`
 * (`corrupt`).
 */
export function verifiedBlock(
  { block, bodies }: Pick<WholeBlock, 'block' | 'bodies'>,
  memory?: VerificationMemory,
): BlockEntry {
  const { height, collectionIds } = block;
  if (bodies.length !== collectionIds.length) {
    throw corruptRecord('body', height, `it has ${bodies.length} of ${collectionIds.length} collections`);
  }
  const collections = bodies.map((body, index) =>
    recompute(height, index, collectionIds[index] as Identifier, asBuffer(body), memory),
  );
  return { block, collections };
}

function recompute(
  height: number,
  index: number,
  id: Identifier,
  stored: Buffer,
  memory?: VerificationMemory,
): VerifiedCollection {
  let collection: VerifiedCollection;
  try {
    collection = verifyCollection(id, splitCollection(stored), memory);
  } catch (error) {
    if (!(error instanceof InvalidCollectionError || error instanceof WireError)) throw error;
    throw corruptRecord(`collection ${index}`, height, error.message, { cause: error });
  }
  if (!stored.equals(collection.encoded)) {
    throw corruptRecord(`collection ${index}`, height, 'it is not in canonical encoding');
  }
  return collection;
}

/** Like `assembleEntry`, read from the database; `undefined` when the height has no block record. */
export async function readSoundEntry(database: Database, height: number): Promise<BlockEntry | undefined> {
  const found = await readBody(database, height);
  return found && soundEntry(found.read, found.bytes);
}
