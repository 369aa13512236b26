import type { IndexedRange } from '../../src/api/index.js';
import type { BlockEntry, SporkRecord } from '../../src/storage/index.js';
import { MemoryIndexStore } from './memoryIndexStore.js';

export interface Heads {
  readonly sealed: number | null;
  readonly head?: number;
}

/** A chain in a store in memory, all of it indexed, and what is told of its range. Both go on as a test says. */
export class IndexedChain {
  readonly store: MemoryIndexStore;
  range: IndexedRange;
  onChanged = (): void => undefined;

  protected constructor(store: MemoryIndexStore, range: IndexedRange) {
    this.store = store;
    this.range = range;
  }

  static async of(chain: readonly BlockEntry[], heads: Heads): Promise<IndexedChain> {
    const { store, range } = await indexed(chain, heads);
    return new IndexedChain(store, range);
  }

  change(range: Partial<IndexedRange>): void {
    this.range = { ...this.range, ...range };
    this.onChanged();
  }

  async commit(blocks: readonly BlockEntry[]): Promise<void> {
    const latestIndexed = (this.range.latestIndexed ?? 0) + blocks.length;
    await this.store.commit({ blocks, latestIndexedHeight: latestIndexed });
    this.change({ latestIndexed, head: Math.max(latestIndexed, this.range.head ?? 0) });
  }

  /** Another process rewinds the store, and goes on with other blocks. */
  async rewind(height: number, blocks: readonly BlockEntry[]): Promise<void> {
    await this.store.rewind(height);
    this.range = { ...this.range, latestIndexed: height };
    await this.commit(blocks);
  }
}

export async function indexed(chain: readonly BlockEntry[], heads: Heads, spork?: SporkRecord) {
  const firstIndexed = chain[0]?.block.height ?? 0;
  const latestIndexed = firstIndexed + chain.length - 1;
  const store = await MemoryIndexStore.startingAt(firstIndexed);
  const sporks = spork === undefined ? [] : [spork];
  await store.commit({ blocks: chain, latestIndexedHeight: latestIndexed, sporks });
  return { store, range: { firstIndexed, latestIndexed, head: latestIndexed, ...heads } };
}
