import { BlockCollectionIndexer } from '../../../src/collections/index.js';
import { createMetrics } from '../../../src/observability/index.js';
import { silentLogger } from '../../../src/observability/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import { LevelIndexStore, SCHEMA_VERSION } from '../../../src/storage/index.js';
import type { BlockEntry, CommitBatch } from '../../../src/storage/index.js';
import type { LevelTuning } from '../../../src/storage/leveldb/directory/openLevel.js';
import { CHAIN_ID, FIRST_HEIGHT } from './blockEntries.js';
import { windowOf } from '../../support/windowOf.js';

/** As the daemon has them by default. */
export const WINDOW_HEIGHTS = 256;
export const GROUP = { maxHeights: 64, maxBytes: 8 * 1024 * 1024 };

export interface ProductOptions {
  readonly path: string;
  readonly tuning?: Partial<LevelTuning>;
  readonly group?: { readonly maxHeights: number; readonly maxBytes: number };
}

/** The durable end of the product: the real indexer on the real store, told of verified blocks and of nothing else. */
export class ProductWriter {
  readonly store: LevelIndexStore;
  readonly indexer: BlockCollectionIndexer;
  /** Batches written so far. */
  batches = 0;

  private constructor(store: LevelIndexStore, group: { maxHeights: number; maxBytes: number }) {
    this.store = store;
    const commit = store.commit.bind(store);
    store.commit = (batch: CommitBatch) => {
      this.batches += 1;
      return commit(batch);
    };
    this.indexer = new BlockCollectionIndexer(
      { groupMaxHeights: group.maxHeights, groupMaxBytes: group.maxBytes },
      {
        store,
        window: windowOf(store, { heights: WINDOW_HEIGHTS }),
        clock: systemClock,
        metrics: createMetrics({ version: 'bench', node: process.version }),
        logger: silentLogger,
      },
    );
  }

  static async open({ path, tuning = {}, group = GROUP }: ProductOptions): Promise<ProductWriter> {
    const store = await LevelIndexStore.open(
      { path, chainId: CHAIN_ID, tuning },
      { logger: silentLogger, clock: systemClock },
    );
    await store.initialise({
      schemaVersion: SCHEMA_VERSION,
      chainId: CHAIN_ID,
      firstHeight: FIRST_HEIGHT,
      createdBy: 'bench',
      sporks: [],
    });
    return new ProductWriter(store, group);
  }

  /**
   * Hands in all blocks in ascending order, each `callers` times, as far ahead of the watermark as the window allows, and
   * waits until every call has been answered. `onDurable` hears of every height, in no particular order.
   */
  async deliver(
    heights: number,
    blockAt: (height: number) => BlockEntry,
    { callers = 1, onDurable }: { readonly callers?: number; onDurable?: (height: number) => void } = {},
  ): Promise<void> {
    const last = FIRST_HEIGHT + heights - 1;
    let next = FIRST_HEIGHT;
    let written = 0;
    await new Promise<void>((resolve, reject) => {
      const handIn = (): void => {
        const bound = Math.min(last, this.indexer.latestIndexedHeight() + WINDOW_HEIGHTS);
        for (; next <= bound; next += 1) {
          const { block, collections } = blockAt(next);
          const answers = Array.from({ length: callers }, () =>
            this.indexer.onReceivedCollectionsForBlock(block, collections),
          );
          for (const answer of answers) answer.then(onAnswer(block.height), reject);
        }
      };
      let answered = 0;
      const onAnswer = (height: number) => (isWritten: boolean) => {
        answered += 1;
        if (isWritten) {
          written += 1;
          onDurable?.(height);
        }
        if (answered === callers * heights) resolve();
        else handIn();
      };
      handIn();
    });
    if (written !== heights) throw new Error(`${written} heights were written, not ${heights}`);
  }

  async close(): Promise<void> {
    this.indexer.stop();
    await this.indexer.idle();
    await this.store.close();
  }
}
