import { type Identifier, identifierBytes } from '../../flow/index.js';
import type { Fork } from './BlockIds.js';
import { ChainGenerator, type ChainOptions, type GeneratedBlock } from './ChainGenerator.js';
import {
  encodeExecutionDataResponse,
  ExecutionDataMaker,
  type ExecutionDataParts,
} from './ExecutionDataMaker.js';
import { ReverseIndex } from './ReverseIndex.js';
import { SizedCache } from './SizedCache.js';

/** How many of the latest generated collections and transactions can be found by id, at least. */
const INDEXED_COLLECTIONS = 65_536;
const INDEXED_TRANSACTIONS = 262_144;
const INDEXED_HEIGHTS = 65_536;
/** Heights searched for an unindexed id, around the last height asked for and around the last id found. */
const SCAN_BELOW_HEIGHTS = 256;
const SCAN_ABOVE_HEIGHTS = 64;
const DEFAULT_CACHE_BYTES = 64 * 1024 * 1024;
/** Overhead of a cached block; limits the number of empty ones. */
const ENTRY_OVERHEAD_BYTES = 2048;

/** Where a collection is: the lowest height that guarantees it, and its index there. */
export interface CollectionPlace {
  readonly block: GeneratedBlock;
  readonly index: number;
}

export interface TransactionPlace extends CollectionPlace {
  readonly transaction: Buffer;
}

/**
 * A generated chain with a bounded cache of blocks, so that each height is generated once, and a bounded index
 * from collection and transaction ids to heights.
 *
 * These ids are hashes and do not contain a height. The latest ones generated are found (`INDEXED_COLLECTIONS`,
 * `INDEXED_TRANSACTIONS`). For any other id, two neighbourhoods are searched once: that of the last height asked for,
 * so that a client can continue after the node restarts, and that of the last id found, starting at the root, so that
 * a client that has its blocks from elsewhere can catch up. To find any other id, ask for its block first.
 */
export class Chain {
  readonly generator: ChainGenerator;
  readonly #blocks: SizedCache<GeneratedBlock>;
  readonly #executionData: SizedCache<Buffer>;
  readonly #collectionHeights = new ReverseIndex({ entries: INDEXED_COLLECTIONS });
  readonly #transactionHeights = new ReverseIndex({ entries: INDEXED_TRANSACTIONS });
  readonly #indexedHeights = new ReverseIndex({ entries: INDEXED_HEIGHTS });
  readonly #executionDataMaker: ExecutionDataMaker;
  #touchedHeight: number;
  #foundHeight: number;

  constructor(options: ChainOptions & { readonly cacheBytes?: number }) {
    this.generator = new ChainGenerator(options);
    this.#executionDataMaker = new ExecutionDataMaker({ generator: this.generator });
    const maxSize = Math.max(1, Math.floor((options.cacheBytes ?? DEFAULT_CACHE_BYTES) / 2));
    this.#blocks = new SizedCache<GeneratedBlock>({ maxSize });
    this.#executionData = new SizedCache<Buffer>({ maxSize });
    this.#touchedHeight = this.#foundHeight = this.generator.rootHeight;
  }

  /** The chain's block at a height between root and end. */
  block(height: number): GeneratedBlock {
    this.#touchedHeight = height;
    return this.#cachedBlock(height);
  }

  /** Finds a block or an orphan by id. */
  locate(id: Buffer): { readonly height: number; readonly fork: Fork } | undefined {
    const place = this.generator.ids.locate(id);
    if (place === undefined) return undefined;
    return place.height < this.generator.rootHeight || place.height > this.generator.endHeight
      ? undefined
      : place;
  }

  /** `SubscribeExecutionDataResponse` of a height. */
  executionData(height: number): Buffer {
    this.#touchedHeight = height;
    const known = this.#executionData.get(height);
    if (known !== undefined) return known;
    const encoded = encodeExecutionDataResponse(this.executionDataParts(this.#cachedBlock(height)));
    this.#executionData.set(height, encoded, encoded.length + ENTRY_OVERHEAD_BYTES);
    return encoded;
  }

  executionDataParts(block: GeneratedBlock): ExecutionDataParts {
    return this.#executionDataMaker.parts(block);
  }

  findCollection(id: Buffer): CollectionPlace | undefined {
    return this.#search(() => this.#collectionAt(this.#collectionHeights.find(id), id));
  }

  findTransaction(id: Buffer): TransactionPlace | undefined {
    return this.#search(() => this.#transactionAt(this.#transactionHeights.find(id), id));
  }

  #search<T extends CollectionPlace>(find: () => T | undefined): T | undefined {
    const place = find() ?? (this.#scan() ? find() : undefined);
    if (place !== undefined) this.#foundHeight = place.block.height;
    return place;
  }

  #collectionAt(height: number | undefined, id: Buffer): CollectionPlace | undefined {
    if (height === undefined) return undefined;
    const hex = id.toString('hex') as Identifier;
    const block = this.#cachedBlock(height);
    const index = block.collections.findIndex((collection) => collection.id === hex);
    return index < 0 ? undefined : { block, index };
  }

  #transactionAt(height: number | undefined, id: Buffer): TransactionPlace | undefined {
    if (height === undefined) return undefined;
    const block = this.#cachedBlock(height);
    for (const [index, { transactionIds, transactions }] of block.collections.entries()) {
      for (const [position, transaction] of transactions.entries()) {
        if (id.compare(transactionIds, position * 32, position * 32 + 32) === 0) {
          return { block, index, transaction };
        }
      }
    }
    return undefined;
  }

  #cachedBlock(height: number): GeneratedBlock {
    const known = this.#blocks.get(height);
    if (known !== undefined) return known;
    const block = this.generator.block(height);
    let size = ENTRY_OVERHEAD_BYTES + block.encoded.length;
    for (const collection of block.collections) size += 2 * collection.encoded.length;
    this.#blocks.set(height, block, size);
    this.#index(block);
    return block;
  }

  /** Records where each id was created: the lowest height that has it. */
  #index(block: GeneratedBlock): void {
    if (this.#indexedHeights.findNumber(block.height) === undefined) {
      this.#indexedHeights.addNumber(block.height, block.height);
    }
    for (const collection of block.collections) {
      if (collection.originHeight !== block.height) continue;
      this.#collectionHeights.add(identifierBytes(collection.id), 0, block.height);
      const { transactionIds } = collection;
      for (let at = 0; at < transactionIds.length; at += 32) {
        this.#addTransaction(transactionIds, at, block.height);
      }
    }
  }

  /** A transaction borrowed from the block below belongs to that block. */
  #addTransaction(ids: Buffer, offset: number, height: number): void {
    const known = this.#transactionHeights.find(ids, offset);
    if (known === height - 1 && this.#transactionAt(known, ids.subarray(offset, offset + 32)) !== undefined) {
      return;
    }
    this.#transactionHeights.add(ids, offset, height);
  }

  /** Generates unindexed blocks around both heights; `false` when there were none. */
  #scan(): boolean {
    const { rootHeight, endHeight } = this.generator;
    let found = false;
    for (const around of [this.#foundHeight, this.#touchedHeight]) {
      const from = Math.max(rootHeight, around - SCAN_BELOW_HEIGHTS);
      const to = Math.min(endHeight, around + SCAN_ABOVE_HEIGHTS);
      for (let height = from; height <= to; height++) {
        if (this.#indexedHeights.findNumber(height) !== undefined) continue;
        this.#cachedBlock(height);
        found = true;
      }
    }
    return found;
  }
}
