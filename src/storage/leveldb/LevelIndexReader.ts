import { identifierBytes } from '../../flow/index.js';
import type { Identifier } from '../../flow/index.js';
import type {
  CollectionPlace,
  IndexReader,
  StoredBlock,
  StoredCollection,
  StoredTransaction,
  TransactionPlace,
} from '../IndexStore.js';
import type { Database } from '../records/Database.js';
import { openPointer, readBlock, readBody, readSlice } from '../records/readRecords.js';
import type { ReadBlock, ReadPointer } from '../records/readRecords.js';
import type { CollectionShape } from '../records/codecs.js';
import { contains } from '../records/heightRanges.js';
import type { HeightRanges } from '../records/heightRanges.js';
import { idKey, idRange, Prefix } from '../records/schema.js';
import { corruptRecord } from '../StorageError.js';

export interface LevelIndexReaderDependencies {
  readonly database: Database;
  /** The readable heights, at the moment of the call. */
  readonly coverage: () => HeightRanges;
}

/**
 * The read side of the port. It needs no lock and no snapshot: a covered height never changes, and the coverage is
 * checked for each pointer and block.
 */
export class LevelIndexReader implements Omit<IndexReader, 'accounts' | 'coverage' | 'latestIndexedHeight'> {
  readonly #database: Database;
  readonly #coverage: () => HeightRanges;

  constructor({ database, coverage }: LevelIndexReaderDependencies) {
    this.#database = database;
    this.#coverage = coverage;
  }

  async blockByHeight(height: number): Promise<StoredBlock | undefined> {
    const read = await this.#block(height);
    return read && { block: read.block, transactionCounts: read.transactionCounts };
  }

  /** Covered or not. Expected errors: `StorageError`. */
  async storedBlock(height: number): Promise<StoredBlock | undefined> {
    const read = await readBlock(this.#database, height);
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
    const read = await this.#block(height);
    if (read === undefined) return undefined;
    const body = await readBody(this.#database, read, { offset: 0, length: read.bodyLength });
    let offset = 0;
    return read.block.collectionIds.map((id, collectionIndex) => {
      const end = offset + (read.shapes[collectionIndex] as CollectionShape).length;
      const encoded = body.subarray(offset, end);
      offset = end;
      return { id, place: { height, collectionIndex }, blockId: read.block.id, encoded };
    });
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
    return (await this.#pointers(Prefix.collection, id, limit)).map(collectionPlace);
  }

  async transaction(id: Identifier): Promise<StoredTransaction | undefined> {
    const pointer = await this.#lowestPointer(Prefix.transaction, id);
    if (pointer === undefined) return undefined;
    const found = await this.#follow(pointer);
    return found && { id, place: transactionPlace(pointer), ...found };
  }

  async transactionPlaces(id: Identifier, limit: number): Promise<readonly TransactionPlace[]> {
    return (await this.#pointers(Prefix.transaction, id, limit)).map(transactionPlace);
  }

  /** `undefined` outside the range. Expected errors: `StorageError` (`corrupt`), also for a hole in the range. */
  async #block(height: number): Promise<ReadBlock | undefined> {
    if (!this.#covers(height)) return undefined;
    return this.#present(height, await readBlock(this.#database, height));
  }

  #present<T>(height: number, read: T | undefined): T | undefined {
    // Checked again: a rewind may have intervened.
    if (read === undefined && this.#covers(height))
      throw corruptRecord('block record', height, 'it is missing');
    return read;
  }

  /**
   * Pointers of an id at covered heights, lowest position first: one read, and at most one more per range, because an
   * uncovered pointer leads on to the next range.
   */
  async #pointers(prefix: number, id: Identifier, limit: number): Promise<ReadPointer[]> {
    const coverage = this.#coverage();
    const range = idRange(prefix, identifierBytes(id));
    const found: ReadPointer[] = [];
    let { gte } = range;
    for (;;) {
      const entries = await this.#database.first({ gte, lt: range.lt }, limit - found.length);
      const pointers = entries.map(openPointer);
      const outside = pointers.findIndex(({ height }) => !contains(coverage, height));
      found.push(...pointers.slice(0, outside === -1 ? pointers.length : outside));
      const passed = pointers[outside];
      const next = passed && coverage.find(({ from }) => from > passed.height);
      if (next === undefined) return found;
      gte = idKey(prefix, identifierBytes(id), next.from);
    }
  }

  #covers(height: number): boolean {
    return contains(this.#coverage(), height);
  }

  async #lowestPointer(prefix: number, id: Identifier): Promise<ReadPointer | undefined> {
    const [pointer] = await this.#pointers(prefix, id, 1);
    return pointer;
  }

  /**
   * The data that a collection or transaction pointer leads to; in a buffer of its own, which does not pin the whole
   * body.
   */
  async #follow({ height, collectionIndex, slice }: ReadPointer) {
    const found = this.#present(height, await readSlice(this.#database, height, slice));
    if (found === undefined) return undefined;
    const { block } = found.read;
    const collectionId = block.collectionIds[collectionIndex];
    if (collectionId === undefined) {
      throw corruptRecord('pointer', height, `its block has no collection ${collectionIndex}`);
    }
    return { blockId: block.id, collectionId, encoded: Buffer.from(found.encoded) };
  }
}

function collectionPlace({ height, collectionIndex }: ReadPointer): CollectionPlace {
  return { height, collectionIndex };
}

function transactionPlace({ height, collectionIndex, transactionIndex }: ReadPointer): TransactionPlace {
  return { height, collectionIndex, transactionIndex };
}
