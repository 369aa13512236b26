import { BlockCollectionIndexer } from '../../../src/collections/index.js';
import { createMetrics, silentLogger } from '../../../src/observability/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import { LevelIndexStore, SCHEMA_VERSION } from '../../../src/storage/index.js';
import type { BlockEntry, IndexStore } from '../../../src/storage/index.js';
import { CHAIN_ID, FIRST_HEIGHT, GROUP_HEIGHTS } from './blocks.js';
import { windowOf } from '../../support/windowOf.js';

/** As the daemon has them by default. */
const WINDOW_HEIGHTS = 256;
const GROUP_MAX_BYTES = 8 * 1024 * 1024;

/** The durable end of the product: the real indexer on the real store, told of verified blocks and of nothing else. */
export class ProductWriter {
  readonly store: LevelIndexStore;
  readonly indexer: BlockCollectionIndexer;

  private constructor(store: LevelIndexStore) {
    this.store = store;
    this.indexer = new BlockCollectionIndexer(
      { groupMaxHeights: GROUP_HEIGHTS, groupMaxBytes: GROUP_MAX_BYTES },
      {
        store,
        window: windowOf(store, { heights: WINDOW_HEIGHTS }),
        clock: systemClock,
        metrics: createMetrics({ version: 'bench', node: process.version }),
        logger: silentLogger,
      },
    );
  }

  static async open(path: string): Promise<ProductWriter> {
    return new ProductWriter(await openStore(path));
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
        const bound = Math.min(last, this.store.latestIndexedHeight() + WINDOW_HEIGHTS);
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

/** A new store in a directory. */
export async function openStore(path: string): Promise<LevelIndexStore> {
  const store = await LevelIndexStore.open(
    { path, chainId: CHAIN_ID },
    { logger: silentLogger, clock: systemClock },
  );
  await initialise(store);
  return store;
}

export function initialise(store: IndexStore): Promise<void> {
  return store.initialise({
    ...{ schemaVersion: SCHEMA_VERSION, chainId: CHAIN_ID, firstHeight: FIRST_HEIGHT },
    ...{ createdBy: 'bench', sporks: [] },
  });
}
