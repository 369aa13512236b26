import { ok as assert } from 'node:assert/strict';
import type { Identifier } from '../../../flow/index.js';
import type { AccountCoverage, AccountPage, AccountQuery, AccountReader } from '../../port/AccountIndex.js';
import type { CommitteeEvidence, ItemKind, Place, StoredBlock } from '../../port/stored.js';
import type { StoredItem, WholeBlock } from '../../port/stored.js';
import { corruptRecord, isCorruption, type StorageError } from '../../StorageError.js';
import { openEvidence } from '../blocks/committeeEvidence.js';
import { placeOf, type ReadPlace } from '../blocks/openPointers.js';
import { collectionsIn, readBlock, readBody, type Values } from '../blocks/readBlocks.js';
import type { Entry } from '../Database.js';
import { contains, type HeightRanges } from '../heightRanges.js';
import { Prefix, type PointerPrefix } from '../schema.js';
import type { FoundDamage, StoredReads } from '../../port/IndexStore.js';

/** The places of an id at covered heights, the lowest first, `limit` at most. Expected errors: `StorageError`. */
export type PointersOf = (
  prefix: PointerPrefix,
  id: Identifier,
  limit: number,
  coverage: HeightRanges,
) => Promise<readonly ReadPlace[]>;

/** Where the bytes of a store come from. */
export interface RecordSource {
  /** Records and bodies, by the keys that they have in LevelDB. */
  readonly values: Values;
  readonly pointers: PointersOf;
  /** The entries of committees, ascending, as they are in LevelDB. */
  readonly evidence: () => Promise<readonly Entry[]>;
  /** Like `AccountReader.page`, with this coverage. */
  readonly accountPage: (query: AccountQuery, coverage: AccountCoverage) => Promise<AccountPage>;
  /**
   * For a store that other processes change: whether a height is readable in its current state. Called only for a height
   * that should be there and is not.
   */
  readonly isCovered?: (height: number) => Promise<boolean>;
}

/**
 * The read side of the port, over any store. It needs no lock and no snapshot: a covered height never changes, and the
 * coverage is checked for each pointer and block. It reports the damage that a read meets.
 */
export abstract class RecordReader implements StoredReads {
  readonly #source: RecordSource;
  readonly #listeners: ((damage: FoundDamage) => void)[] = [];

  constructor(source: RecordSource) {
    this.#source = source;
  }

  /** The readable heights, at the moment of the call. */
  abstract coverage(): HeightRanges;

  onDamage(callback: (damage: FoundDamage) => void): void {
    this.#listeners.push(callback);
  }

  /** Runs a read, and reports damage that it meets to the listeners. */
  async reporting<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (error) {
      if (isCorruption(error)) {
        const damage = { height: error.height, what: error.damage ?? error.message };
        for (const listener of this.#listeners) listener(damage);
      }
      throw error;
    }
  }

  blockByHeight(height: number): Promise<StoredBlock | undefined> {
    return this.reporting(() => this.#blockAt(height));
  }

  /** A durable block, readable or not, as of a range that is being filled. Expected errors: `StorageError`. */
  async durableBlock(height: number): Promise<StoredBlock | undefined> {
    const { values, isCovered } = this.#source;
    const read = await damagedAt(height, readBlock(values, height));
    if (read === undefined && (await isCovered?.(height)) === true) throw missing(height);
    return read && { block: read.block, transactionCounts: read.transactionCounts };
  }

  blockById(id: Identifier): Promise<StoredBlock | undefined> {
    return this.reporting(async () => {
      const [pointer] = await this.#places(Prefix.blockId, id, 1);
      if (pointer === undefined) return undefined;
      const stored = await this.#blockAt(pointer.height);
      if (stored !== undefined && stored.block.id !== id)
        throw corruptRecord('block id pointer', pointer.height, 'another block stands at its height');
      return stored;
    });
  }

  wholeBlock(height: number): Promise<WholeBlock | undefined> {
    return this.reporting(async () => {
      const found = await this.#present(height, () => readBody(this.#source.values, height));
      if (found === undefined) return undefined;
      const { block, transactionCounts } = found.read;
      return { block, transactionCounts, bodies: collectionsIn(found.read, found.bytes) };
    });
  }

  item(kind: ItemKind, id: Identifier): Promise<StoredItem | undefined> {
    return this.reporting(async () => {
      const [pointer] = await this.#places(Prefix[kind], id, 1);
      if (pointer === undefined) return undefined;
      const { height, collectionIndex, slice } = pointer;
      const found = await this.#present(height, () => readBody(this.#source.values, height, slice));
      if (found === undefined) return undefined;
      const { block } = found.read;
      const collectionId = block.collectionIds[collectionIndex];
      if (collectionId === undefined)
        throw corruptRecord('pointer', height, `its block has no collection ${collectionIndex}`);
      if (kind === 'collection' && collectionId !== id)
        throw corruptRecord('collection pointer', height, 'another collection stands at its place');
      // In a separate buffer, which does not pin the whole body.
      const encoded = Buffer.from(found.bytes);
      return { id, place: placeOf(pointer), blockId: block.id, collectionId, encoded };
    });
  }

  async places(kind: ItemKind, id: Identifier, limit: number): Promise<readonly Place[]> {
    return (await this.reporting(() => this.#places(Prefix[kind], id, limit))).map(placeOf);
  }

  async evidence(): Promise<readonly CommitteeEvidence[]> {
    return (await this.#source.evidence()).map(openEvidence);
  }

  /** `coverage`: the current one. */
  accountsOf(coverage: AccountReader['coverage']): AccountReader {
    const page = (query: AccountQuery): Promise<AccountPage> => {
      const covered = coverage();
      assert(covered !== undefined, 'the account index is off');
      return this.reporting(() => this.#source.accountPage(query, covered));
    };
    return { coverage, page };
  }

  async #blockAt(height: number): Promise<StoredBlock | undefined> {
    const read = await this.#present(height, () => readBlock(this.#source.values, height));
    return read && { block: read.block, transactionCounts: read.transactionCounts };
  }

  #places(prefix: PointerPrefix, id: Identifier, limit: number): Promise<readonly ReadPlace[]> {
    return this.#source.pointers(prefix, id, limit, this.coverage());
  }

  /** `undefined` outside the range. Expected errors: `StorageError` (`corrupt`), also for a hole in the range. */
  async #present<T>(height: number, read: () => Promise<T | undefined>): Promise<T | undefined> {
    if (!contains(this.coverage(), height)) return undefined;
    const found = await damagedAt(height, read());
    if (found !== undefined) return found;
    // Checked again: a rewind may have intervened, here or in another process.
    const { isCovered } = this.#source;
    if (contains(this.coverage(), height) && (await isCovered?.(height)) !== false) throw missing(height);
    return undefined;
  }
}

function missing(height: number): StorageError {
  return corruptRecord('block record', height, 'it is missing');
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
