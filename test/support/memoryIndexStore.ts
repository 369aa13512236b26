import type { Identifier } from '../../src/flow/index.js';
import type {
  BlockEntry,
  BlockHead,
  CollectionPlace,
  CommitteeEvidence,
  HeightRange,
  IndexStore,
  StoredBlock,
  StoredCollection,
  StoredTransaction,
  StoreMeta,
  TransactionPlace,
  WholeBlock,
} from '../../src/storage/index.js';
import type { CommitBatch } from '../../src/storage/port/RangeStore.js';
import type { AccountIndex } from '../../src/storage/port/AccountIndex.js';
import type { RangeBook } from '../../src/storage/port/RangeBook.js';
import { everyTransactionOf } from './accountChain.js';
import { accountsOff } from './accountsOff.js';

export interface MemoryIndexStoreHooks {
  /** Runs before a commit takes effect: wait to hold it back, throw to make it fail. */
  readonly beforeCommit?: (batch: CommitBatch) => Promise<void>;
}

/** The IndexStore port in a map: keeps the port's rules by assertion, and remembers every commit. */
export class MemoryIndexStore implements IndexStore {
  /** Every commit that took effect, in order. */
  readonly commits: CommitBatch[] = [];
  /** Off, unless `switchAccountsOn` was called. */
  accounts: AccountIndex = accountsOff;
  /** None but the live one. */
  readonly ranges: RangeBook = {
    plans: () => [],
    open: () => [],
    change: () => Promise.reject(new Error('this store keeps no ranges')),
    run: () => Promise.reject(new Error('this store keeps no ranges')),
    release: () => undefined,
  };
  closed = false;
  readonly #hooks: MemoryIndexStoreHooks;
  readonly #blocks = new Map<number, BlockEntry>();
  readonly #evidence = new Map<number, CommitteeEvidence>();
  #meta: StoreMeta | undefined;
  #latest = 0;
  #rewinds = 0;
  #committing = false;

  constructor(hooks: MemoryIndexStoreHooks = {}) {
    this.#hooks = hooks;
  }

  /** A store that is initialised at `firstHeight`. */
  static async startingAt(
    firstHeight: number,
    { chainId = 'flow-localnet', ...hooks }: MemoryIndexStoreHooks & { readonly chainId?: string } = {},
  ): Promise<MemoryIndexStore> {
    const store = new MemoryIndexStore(hooks);
    await store.initialise({ schemaVersion: 1, chainId, firstHeight, createdBy: 'test', sporks: [] });
    return store;
  }

  /** The account index covers the heights from `coveredFrom` on. */
  switchAccountsOn(coveredFrom = 0): void {
    const coverage = () => {
      const first = this.#meta?.firstHeight ?? 0;
      const from = Math.max(first, coveredFrom);
      return { from, to: this.#latest, missingHeights: from - first };
    };
    this.accounts = {
      coverage,
      extend: () => Promise.resolve(),
      page: async ({ address, roles, before, limit }) => {
        const { from } = coverage();
        const all = everyTransactionOf(address, this.#entries()).filter(
          ({ place, roles: its }) => place.height >= from && (its & roles) !== 0,
        );
        const start = before === undefined ? 0 : all.findIndex(({ place }) => isBelow(place, before));
        const rest = start < 0 ? [] : all.slice(start);
        const transactions = rest.slice(0, limit);
        const bottom = { height: from, collectionIndex: 0, transactionIndex: 0 };
        const end = from > (this.#meta?.firstHeight ?? 0) ? bottom : undefined;
        const next = rest.length > limit ? transactions.at(-1)?.place : end;
        return { transactions, next, coverage: coverage() };
      },
    };
  }

  meta(): StoreMeta | undefined {
    return this.#meta;
  }

  async initialise(meta: StoreMeta): Promise<void> {
    if (this.#meta !== undefined) throw new Error('the store is initialised already');
    this.#meta = meta;
    this.#latest = meta.firstHeight - 1;
  }

  coverage(): readonly HeightRange[] {
    const from = this.#meta?.firstHeight ?? 0;
    return this.#meta === undefined || this.#latest < from ? [] : [{ from, to: this.#latest }];
  }

  latestIndexedHeight(): number {
    return this.#latest;
  }

  rewinds(): number {
    return this.#rewinds;
  }

  latestBlock(): BlockHead | undefined {
    return this.#readable(this.#latest)?.block;
  }

  blocksAboveWatermark(): readonly BlockHead[] {
    return [...this.#blocks.values()]
      .map(({ block }) => block)
      .filter(({ height }) => height > this.#latest)
      .sort((left, right) => left.height - right.height);
  }

  hasHeight(height: number): boolean {
    return this.#blocks.has(height);
  }

  stage(): void {
    // Nothing to prepare.
  }

  async commit(batch: CommitBatch): Promise<void> {
    if (this.#committing) throw new Error('a commit is under way already');
    if (this.#meta === undefined) throw new Error('the store is not initialised');
    const added = new Set<number>();
    for (const { block, collections } of batch.blocks) {
      if (this.#blocks.has(block.height) || added.has(block.height)) {
        throw new Error(`height ${block.height} is durable already`);
      }
      if (block.collectionIds.join() !== collections.map(({ id }) => id).join()) {
        throw new Error(`the collections of height ${block.height} are not the guaranteed ones`);
      }
      added.add(block.height);
    }
    if (batch.latestIndexedHeight < this.#latest) throw new Error('the watermark would go down');
    for (let height = this.#latest + 1; height <= batch.latestIndexedHeight; height += 1) {
      if (!this.#blocks.has(height) && !added.has(height)) {
        throw new Error(`the watermark would pass height ${height}, which is missing`);
      }
    }
    this.#committing = true;
    try {
      await this.#hooks.beforeCommit?.(batch);
      for (const entry of batch.blocks) this.#blocks.set(entry.block.height, entry);
      this.#latest = batch.latestIndexedHeight;
      if (batch.spork !== undefined) {
        this.#meta = { ...this.#meta, sporks: [...this.#meta.sporks, batch.spork] };
      }
      this.commits.push(batch);
    } finally {
      this.#committing = false;
    }
  }

  async rewind(height: number): Promise<void> {
    if (height < this.#latest) this.#rewinds += 1;
    for (const stored of [...this.#blocks.keys()]) if (stored > height) this.#blocks.delete(stored);
    for (const kept of [...this.#evidence.keys()]) if (kept > height) this.#evidence.delete(kept);
    this.#latest = Math.min(this.#latest, height);
  }

  // It is never damaged.
  check: IndexStore['check'] = () => Promise.resolve({ bytes: 0, damages: [] });
  heal: IndexStore['heal'] = () => Promise.resolve([]);
  healing: IndexStore['healing'] = () => [];
  onDamage: IndexStore['onDamage'] = () => undefined;

  async close(): Promise<void> {
    this.closed = true;
  }

  async blockByHeight(height: number): Promise<StoredBlock | undefined> {
    const entry = this.#readable(height);
    return entry && storedBlock(entry);
  }

  async blockById(id: Identifier): Promise<StoredBlock | undefined> {
    const entry = this.#entries().find(({ block }) => block.id === id);
    return entry && storedBlock(entry);
  }

  async wholeBlock(height: number): Promise<WholeBlock | undefined> {
    const [stored, collections] = [await this.blockByHeight(height), await this.collectionsByHeight(height)];
    return stored && collections && { ...stored, collections };
  }

  async collectionsByHeight(height: number): Promise<readonly StoredCollection[] | undefined> {
    const entry = this.#readable(height);
    return entry?.collections.map((_, collectionIndex) =>
      storedCollection(entry, { height, collectionIndex }),
    );
  }

  async collection(id: Identifier): Promise<StoredCollection | undefined> {
    const [place] = await this.collectionPlaces(id, 1);
    return place && storedCollection(this.#blocks.get(place.height)!, place);
  }

  async collectionPlaces(id: Identifier, limit: number): Promise<readonly CollectionPlace[]> {
    return this.#entries()
      .flatMap(({ block, collections }) =>
        collections.flatMap((collection, collectionIndex) =>
          collection.id === id ? [{ height: block.height, collectionIndex }] : [],
        ),
      )
      .slice(0, limit);
  }

  async transaction(id: Identifier): Promise<StoredTransaction | undefined> {
    const [place] = await this.transactionPlaces(id, 1);
    if (place === undefined) return undefined;
    const { block, collections } = this.#blocks.get(place.height)!;
    const collection = collections[place.collectionIndex]!;
    const offset = collection.ranges[2 * place.transactionIndex]!;
    const length = collection.ranges[2 * place.transactionIndex + 1]!;
    return {
      id,
      place,
      blockId: block.id,
      collectionId: collection.id,
      encoded: collection.encoded.subarray(offset, offset + length),
    };
  }

  evidence(): Promise<readonly CommitteeEvidence[]> {
    return Promise.resolve([...this.#evidence.values()].sort((a, b) => a.height - b.height));
  }

  keepEvidence(evidence: CommitteeEvidence): Promise<void> {
    this.#evidence.set(evidence.height, evidence);
    return Promise.resolve();
  }

  async transactionPlaces(id: Identifier, limit: number): Promise<readonly TransactionPlace[]> {
    return this.#entries()
      .flatMap(({ block, collections }) =>
        collections.flatMap(({ transactionIds }, collectionIndex) =>
          splitIds(transactionIds).flatMap((transactionId, transactionIndex) =>
            transactionId === id ? [{ height: block.height, collectionIndex, transactionIndex }] : [],
          ),
        ),
      )
      .slice(0, limit);
  }

  /** Readable entries, ascending. */
  #entries(): BlockEntry[] {
    return [...this.#blocks.values()]
      .filter(({ block }) => block.height <= this.#latest)
      .sort((left, right) => left.block.height - right.block.height);
  }

  #readable(height: number): BlockEntry | undefined {
    return height <= this.#latest ? this.#blocks.get(height) : undefined;
  }
}

function storedBlock({ block, collections }: BlockEntry): StoredBlock {
  return { block, transactionCounts: collections.map(({ ranges }) => ranges.length / 2) };
}

function storedCollection({ block, collections }: BlockEntry, place: CollectionPlace): StoredCollection {
  const { id, encoded } = collections[place.collectionIndex]!;
  return { id, place, blockId: block.id, encoded };
}

function splitIds(transactionIds: Uint8Array): string[] {
  const hex = Buffer.from(transactionIds).toString('hex');
  return hex.match(/.{64}/g) ?? [];
}

function isBelow(left: TransactionPlace, right: TransactionPlace): boolean {
  const difference =
    left.height - right.height ||
    left.collectionIndex - right.collectionIndex ||
    left.transactionIndex - right.transactionIndex;
  return difference < 0;
}
