import type { Identifier } from '../../../flow/index.js';
import type {
  CollectionPlace,
  CommitteeEvidence,
  StoredBlock,
  StoredCollection,
  StoredTransaction,
  TransactionPlace,
  WholeBlock,
} from '../../port/stored.js';
import { corruptRecord, isCorruption } from '../../StorageError.js';
import { openEvidence } from '../blocks/committeeEvidence.js';
import type { ReadPlace } from '../blocks/openPointers.js';
import { readBlock } from '../blocks/readBlocks.js';
import type { ReadBlock, Values } from '../blocks/readBlocks.js';
import { readSlice, readWhole } from '../blocks/readBodies.js';
import type { CollectionShape } from '../coding/blockRecord.js';
import type { Entry } from '../Database.js';
import { contains } from '../heightRanges.js';
import type { HeightRanges } from '../heightRanges.js';
import { Prefix } from '../schema.js';
import type { PointerPrefix } from '../schema.js';
import type { StoredReads } from '../../port/IndexStore.js';

/** The places of an id at covered heights, the lowest first, `limit` at most. Expected errors: `StorageError`. */
export type PointersOf = (
  prefix: PointerPrefix,
  id: Identifier,
  limit: number,
  coverage: HeightRanges,
) => Promise<readonly ReadPlace[]>;

export interface RecordReaderDependencies {
  /** Records and bodies, by the keys that they have in LevelDB. */
  readonly values: Values;
  readonly pointers: PointersOf;
  /** The entries of committees, ascending, as they are in LevelDB. */
  readonly evidence: () => Promise<readonly Entry[]>;
  /** The readable heights, at the moment of the call. */
  readonly coverage: () => HeightRanges;
  /**
   * Of a store that other processes change: whether a height is readable by what is stored now. It is asked only for one
   * that ought to be there and is not.
   */
  readonly isCovered?: (height: number) => Promise<boolean>;
}

/**
 * The read side of the port, over any store. It needs no lock and no snapshot: a covered height never changes, and the
 * coverage is checked for each pointer and block.
 */
export class RecordReader implements StoredReads {
  readonly #values: Values;
  readonly #pointers: PointersOf;
  readonly #evidence: RecordReaderDependencies['evidence'];
  readonly #coverage: () => HeightRanges;
  readonly #isCovered: (height: number) => Promise<boolean>;

  constructor({
    values,
    pointers,
    evidence,
    coverage,
    isCovered = () => Promise.resolve(true),
  }: RecordReaderDependencies) {
    this.#values = values;
    this.#pointers = pointers;
    this.#evidence = evidence;
    this.#coverage = coverage;
    this.#isCovered = isCovered;
  }

  async blockByHeight(height: number): Promise<StoredBlock | undefined> {
    const read = await this.#block(height);
    return read && { block: read.block, transactionCounts: read.transactionCounts };
  }

  /** Readable or not. Expected errors: `StorageError`. */
  async storedBlock(height: number): Promise<StoredBlock | undefined> {
    const read = await damagedAt(height, readBlock(this.#values, height));
    return read && { block: read.block, transactionCounts: read.transactionCounts };
  }

  async blockById(id: Identifier): Promise<StoredBlock | undefined> {
    const pointer = await this.#lowestPointer(Prefix.blockId, id);
    if (pointer === undefined) return undefined;
    const stored = await this.blockByHeight(pointer.height);
    if (stored !== undefined && stored.block.id !== id) {
      throw corruptRecord('block id pointer', pointer.height, 'another block stands at its height');
    }
    return stored;
  }

  async collectionsByHeight(height: number): Promise<readonly StoredCollection[] | undefined> {
    return (await this.wholeBlock(height))?.collections;
  }

  async wholeBlock(height: number): Promise<WholeBlock | undefined> {
    if (!this.#covers(height)) return undefined;
    const found = await this.#present(height, await damagedAt(height, readWhole(this.#values, height)));
    if (found === undefined) return undefined;
    const { body, read } = found;
    let offset = 0;
    const collections = read.block.collectionIds.map((id, collectionIndex) => {
      const end = offset + (read.shapes[collectionIndex] as CollectionShape).length;
      const encoded = body.subarray(offset, end);
      offset = end;
      return { id, place: { height, collectionIndex }, blockId: read.block.id, encoded };
    });
    return { block: read.block, transactionCounts: read.transactionCounts, collections };
  }

  async collection(id: Identifier): Promise<StoredCollection | undefined> {
    const pointer = await this.#lowestPointer(Prefix.collection, id);
    if (pointer === undefined) return undefined;
    const found = await this.#follow(pointer);
    if (found === undefined) return undefined;
    if (found.collectionId !== id) {
      throw corruptRecord('collection pointer', pointer.height, 'another collection stands at its place');
    }
    return { id, place: collectionPlace(pointer), blockId: found.blockId, encoded: found.encoded };
  }

  async collectionPlaces(id: Identifier, limit: number): Promise<readonly CollectionPlace[]> {
    return (await this.#pointers(Prefix.collection, id, limit, this.#coverage())).map(collectionPlace);
  }

  async transaction(id: Identifier): Promise<StoredTransaction | undefined> {
    const pointer = await this.#lowestPointer(Prefix.transaction, id);
    if (pointer === undefined) return undefined;
    const found = await this.#follow(pointer);
    return found && { id, place: transactionPlace(pointer), ...found };
  }

  async transactionPlaces(id: Identifier, limit: number): Promise<readonly TransactionPlace[]> {
    return (await this.#pointers(Prefix.transaction, id, limit, this.#coverage())).map(transactionPlace);
  }

  async evidence(): Promise<readonly CommitteeEvidence[]> {
    return (await this.#evidence()).map(openEvidence);
  }

  /** `undefined` outside the range. Expected errors: `StorageError` (`corrupt`), also for a hole in the range. */
  async #block(height: number): Promise<ReadBlock | undefined> {
    if (!this.#covers(height)) return undefined;
    return this.#present(height, await damagedAt(height, readBlock(this.#values, height)));
  }

  /** Expected errors: as `#block`. */
  async #present<T>(height: number, read: T | undefined): Promise<T | undefined> {
    // Checked again: a rewind may have intervened, here or in another process.
    if (read === undefined && this.#covers(height) && (await this.#isCovered(height)))
      throw corruptRecord('block record', height, 'it is missing');
    return read;
  }

  #covers(height: number): boolean {
    return contains(this.#coverage(), height);
  }

  async #lowestPointer(prefix: PointerPrefix, id: Identifier): Promise<ReadPlace | undefined> {
    const [pointer] = await this.#pointers(prefix, id, 1, this.#coverage());
    return pointer;
  }

  /**
   * The data that a collection or transaction pointer leads to; in a buffer of its own, which does not pin the whole
   * body.
   */
  async #follow({ height, collectionIndex, slice }: ReadPlace) {
    const found = await this.#present(
      height,
      await damagedAt(height, readSlice(this.#values, height, slice)),
    );
    if (found === undefined) return undefined;
    const { block } = found.read;
    const collectionId = block.collectionIds[collectionIndex];
    if (collectionId === undefined) {
      throw corruptRecord('pointer', height, `its block has no collection ${collectionIndex}`);
    }
    return { blockId: block.id, collectionId, encoded: Buffer.from(found.encoded) };
  }
}

/** Names the height where the database itself reports damage. */
async function damagedAt<T>(height: number, read: Promise<T>): Promise<T> {
  try {
    return await read;
  } catch (error) {
    if (!isCorruption(error) || error.height !== undefined) throw error;
    throw corruptRecord('records', height, 'the files of the database that hold them are damaged', {
      cause: error,
    });
  }
}

function collectionPlace({ height, collectionIndex }: ReadPlace): CollectionPlace {
  return { height, collectionIndex };
}

function transactionPlace({ height, collectionIndex, transactionIndex }: ReadPlace): TransactionPlace {
  return { height, collectionIndex, transactionIndex };
}
