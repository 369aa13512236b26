import type { Identifier } from '../../src/flow/index.js';
import { joined, type CommitBatch, type StoreMeta, type WholeBlock } from '../../src/storage/index.js';
import type { BlockEntry, BlockHead, CommitteeEvidence, HeightRange } from '../../src/storage/index.js';
import type { IndexStore, ItemKind, Place, StoredBlock, StoredItem } from '../../src/storage/index.js';
import type { AccountIndex } from '../../src/storage/port/AccountIndex.js';
import type { RangeBook } from '../../src/storage/port/RangeBook.js';
import { everyTransactionOf } from './accountChain.js';
import { accountsOff } from './accountsOff.js';
import { transactionIdsOf, transactionsOf } from './storeBlocks.js';

const noRanges = (): Promise<never> => Promise.reject(new Error('this store keeps no ranges'));

/** The IndexStore port in a map, so simple that the stores are compared with it. */
export class MemoryIndexStore implements IndexStore {
  /** Off, unless `switchAccountsOn` was called. */
  accounts: AccountIndex = accountsOff;
  /** None but the live one. */
  readonly ranges: RangeBook = {
    ...{ plans: () => [], open: () => [], release: () => undefined },
    ...{ change: noRanges, run: noRanges },
  };
  readonly sizeBytes = () => Promise.resolve(undefined);
  /** Those above the watermark, too. */
  readonly blocks = new Map<number, BlockEntry>();
  readonly #evidence = new Map<number, CommitteeEvidence>();
  #meta: StoreMeta | undefined;
  #latest = 0;
  #rewinds = 0;

  static async startingAt(firstHeight: number): Promise<MemoryIndexStore> {
    const store = new MemoryIndexStore();
    const meta = { schemaVersion: 1, chainId: 'flow-localnet', createdBy: 'test', sporks: [] };
    await store.initialise({ ...meta, firstHeight });
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
        const { from, missingHeights } = coverage();
        const rest = everyTransactionOf(address, this.#entries()).filter(
          ({ place, roles: its }) =>
            place.height >= from && (its & roles) !== 0 && (before === undefined || isBelow(place, before)),
        );
        const transactions = rest.slice(0, limit);
        const bottom = { height: from, collectionIndex: 0, transactionIndex: 0 };
        const end = missingHeights > 0 ? bottom : undefined;
        const next = rest.length > limit ? transactions.at(-1)?.place : end;
        return { transactions, next, coverage: coverage() };
      },
    };
  }

  meta(): StoreMeta | undefined {
    return this.#meta;
  }

  async initialise(meta: StoreMeta): Promise<void> {
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
    return ascending([...this.blocks.values()].map(({ block }) => block)).filter(
      ({ height }) => height > this.#latest,
    );
  }

  hasHeight(height: number): boolean {
    return this.blocks.has(height);
  }

  stage(_entry: BlockEntry): void {
    // Nothing to prepare.
  }

  async commit({ blocks, latestIndexedHeight, sporks = [] }: CommitBatch): Promise<void> {
    if (this.#meta === undefined) throw new Error('the store is not initialised');
    for (const entry of blocks) this.blocks.set(entry.block.height, entry);
    this.#latest = latestIndexedHeight;
    this.#meta = { ...this.#meta, sporks: [...this.#meta.sporks, ...sporks] };
  }

  async rewind(height: number): Promise<void> {
    if (height < this.#latest) this.#rewinds += 1;
    for (const kept of [this.blocks, this.#evidence])
      for (const each of [...kept.keys()]) if (each > height) kept.delete(each);
    this.#latest = Math.min(this.#latest, height);
  }

  unproven: IndexStore['unproven'] = () => {
    const unproven = [...this.blocks.values()].filter(({ block }) => block.proof === undefined);
    return joined(unproven.map(({ block }) => ({ from: block.height, to: block.height })));
  };

  forgetAbove(): Promise<void> {
    return this.rewind(this.#latest);
  }

  // It is never damaged.
  takeBackDamage: IndexStore['takeBackDamage'] = () => Promise.resolve();
  check: IndexStore['check'] = () => Promise.resolve({ bytes: 0, damages: [] });
  addProofs: IndexStore['addProofs'] = () => Promise.resolve();
  heal: IndexStore['heal'] = () => Promise.resolve([]);
  healing: IndexStore['healing'] = () => [];
  onDamage: IndexStore['onDamage'] = () => undefined;

  async close(): Promise<void> {
    // Nothing is open.
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
    const entry = this.#readable(height);
    return entry && { ...storedBlock(entry), bodies: entry.collections.map(({ encoded }) => encoded) };
  }

  async item(kind: ItemKind, id: Identifier): Promise<StoredItem | undefined> {
    return this.#items(kind, id)[0];
  }

  async places(kind: ItemKind, id: Identifier, limit: number): Promise<readonly Place[]> {
    return this.#items(kind, id).flatMap(({ place }, index) => (index < limit ? [place] : []));
  }

  async evidence(): Promise<readonly CommitteeEvidence[]> {
    return ascending([...this.#evidence.values()]);
  }

  async keepEvidence(evidence: CommitteeEvidence): Promise<void> {
    this.#evidence.set(evidence.height, evidence);
  }

  #items(kind: ItemKind, wanted: Identifier): StoredItem[] {
    return this.#entries().flatMap(({ block: { height, id: blockId }, collections }) =>
      collections.flatMap((collection, collectionIndex) => {
        const isOne = kind === 'collection';
        const ids = isOne ? [collection.id] : transactionIdsOf(collection);
        return ids.flatMap((id, transactionIndex) => {
          if (id !== wanted) return [];
          const place = { height, collectionIndex, transactionIndex };
          const encoded = isOne ? collection.encoded : transactionsOf(collection)[transactionIndex]!;
          return [{ id, place, blockId, collectionId: collection.id, encoded }];
        });
      }),
    );
  }

  /** Readable entries, ascending. */
  #entries(): BlockEntry[] {
    return ascending([...this.blocks.values()].map(({ block }) => block)).flatMap(
      ({ height }) => this.#readable(height) ?? [],
    );
  }

  #readable(height: number): BlockEntry | undefined {
    return height <= this.#latest ? this.blocks.get(height) : undefined;
  }
}

function ascending<T extends { readonly height: number }>(all: readonly T[]): T[] {
  return all.toSorted((left, right) => left.height - right.height);
}

function storedBlock({ block, collections }: BlockEntry): StoredBlock {
  return { block, transactionCounts: collections.map(({ ranges }) => ranges.length / 2) };
}

function isBelow(left: Place, right: Place): boolean {
  const difference =
    left.height - right.height ||
    left.collectionIndex - right.collectionIndex ||
    left.transactionIndex - right.transactionIndex;
  return difference < 0;
}
