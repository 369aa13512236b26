import type { FinalizedBlock, Identifier } from '../../src/flow/index.js';
import type { BlockEntry, HeightRange, IndexStore, StoreMeta } from '../../src/storage/index.js';
import type { CommitBatch } from '../../src/storage/port/RangeStore.js';
import { testify } from './Steps.js';
import type { Operation, Steps } from './Steps.js';

/** The store, with a step before and after whatever changes it, and a word about each commit that was answered. */
export class SteppedStore implements IndexStore {
  readonly #inner: IndexStore;
  readonly #steps: Steps;
  readonly #rewindName: 'rewind' | 'anew';

  constructor(inner: IndexStore, steps: Steps, isRewindCommand: boolean) {
    this.#inner = inner;
    this.#steps = steps;
    this.#rewindName = isRewindCommand ? 'rewind' : 'anew';
    steps.shownWatermark = () => (inner.meta() === undefined ? undefined : inner.latestIndexedHeight());
  }

  get accounts(): IndexStore['accounts'] {
    return this.#inner.accounts;
  }

  get ranges(): IndexStore['ranges'] {
    return this.#inner.ranges;
  }

  onDamage(...asked: Parameters<IndexStore['onDamage']>): void {
    this.#inner.onDamage(...asked);
  }

  healing(): ReturnType<IndexStore['healing']> {
    return this.#inner.healing();
  }

  heal(...asked: Parameters<IndexStore['heal']>): ReturnType<IndexStore['heal']> {
    return this.#inner.heal(...asked);
  }

  check(...asked: Parameters<IndexStore['check']>): ReturnType<IndexStore['check']> {
    return this.#inner.check(...asked);
  }

  coverage(): ReturnType<IndexStore['coverage']> {
    return this.#inner.coverage();
  }

  meta(): StoreMeta | undefined {
    return this.#inner.meta();
  }

  latestIndexedHeight(): number {
    return this.#inner.latestIndexedHeight();
  }

  rewinds(): number {
    return this.#inner.rewinds();
  }

  latestBlock(): ReturnType<IndexStore['latestBlock']> {
    return this.#inner.latestBlock();
  }

  blocksAboveWatermark(): ReturnType<IndexStore['blocksAboveWatermark']> {
    return this.#inner.blocksAboveWatermark();
  }

  hasHeight(height: number): boolean {
    return this.#inner.hasHeight(height);
  }

  async initialise(meta: StoreMeta): Promise<void> {
    this.#steps.take('begin.called');
    await this.#during('begin', () => this.#inner.initialise(meta));
    testify({ testimony: 'durable', heights: [], watermark: this.latestIndexedHeight() });
    this.#steps.take('begin.told');
  }

  stage(entry: BlockEntry): void {
    this.#inner.stage(entry);
  }

  async commit(batch: CommitBatch): Promise<void> {
    this.#steps.take('commit.called');
    this.#steps.commitCalled();
    await this.#during('commit', () => this.#inner.commit(batch));
    const heights = batch.blocks.map(({ block }) => block.height);
    testify({ testimony: 'durable', heights, watermark: this.latestIndexedHeight() });
    this.#steps.take(this.#steps.isStopping ? 'stop.commit.told' : 'commit.told');
  }

  async rewind(height: number): Promise<void> {
    this.#steps.take(`${this.#rewindName}.called`);
    await this.#during('rewind', () => this.#inner.rewind(height));
    this.#steps.take(`${this.#rewindName}.told`);
  }

  unproven(): readonly HeightRange[] {
    return this.#inner.unproven?.() ?? [];
  }

  async addProofs(proven: readonly FinalizedBlock[]): Promise<void> {
    this.#steps.take('prove.called');
    await this.#during('prove', async () => this.#inner.addProofs?.(proven));
    this.#steps.take('prove.told');
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  blockByHeight(height: number): ReturnType<IndexStore['blockByHeight']> {
    return this.#inner.blockByHeight(height);
  }

  blockById(id: Identifier): ReturnType<IndexStore['blockById']> {
    return this.#inner.blockById(id);
  }

  wholeBlock(height: number): ReturnType<IndexStore['wholeBlock']> {
    return this.#inner.wholeBlock(height);
  }

  collectionsByHeight(height: number): ReturnType<IndexStore['collectionsByHeight']> {
    return this.#inner.collectionsByHeight(height);
  }

  collection(id: Identifier): ReturnType<IndexStore['collection']> {
    return this.#inner.collection(id);
  }

  collectionPlaces(id: Identifier, limit: number): ReturnType<IndexStore['collectionPlaces']> {
    return this.#inner.collectionPlaces(id, limit);
  }

  transaction(id: Identifier): ReturnType<IndexStore['transaction']> {
    return this.#inner.transaction(id);
  }

  transactionPlaces(id: Identifier, limit: number): ReturnType<IndexStore['transactionPlaces']> {
    return this.#inner.transactionPlaces(id, limit);
  }

  evidence(): ReturnType<IndexStore['evidence']> {
    return this.#inner.evidence();
  }

  keepEvidence(...args: Parameters<IndexStore['keepEvidence']>): Promise<void> {
    return this.#inner.keepEvidence(...args);
  }

  async #during(operation: Operation, action: () => Promise<void>): Promise<void> {
    this.#steps.operation = operation;
    await action();
    this.#steps.operation = 'idle';
  }
}
