import type { ChainGenerator, GeneratedBlock } from '../../src/devnet/index.js';
import { decodeBlockMessage, verifyCollection } from '../../src/flow/index.js';
import { LevelIndexStore, SCHEMA_VERSION } from '../../src/storage/index.js';
import type { BlockEntry, StoreMeta } from '../../src/storage/index.js';
import { RecordingLogger } from './recordingLogger.js';
import { storePath } from './storeDump.js';
import { systemClock } from '../../src/runtime/index.js';

/** Blocks of one batch while the reference store is written. */
const BATCH_HEIGHTS = 100;

/** The generated blocks of the heights `from … to`. */
export function blocksOf(chain: ChainGenerator, from: number, to: number): GeneratedBlock[] {
  return Array.from({ length: to - from + 1 }, (_, index) => chain.block(from + index));
}

/** Writes the store that a daemon must end up with, straight from the chain: no node, no source, no daemon. */
export async function writeReferenceStore(
  dataDir: string,
  blocks: readonly GeneratedBlock[],
  meta: Pick<StoreMeta, 'chainId'> & Partial<StoreMeta>,
): Promise<void> {
  const store = await LevelIndexStore.open(
    { path: storePath(dataDir), chainId: meta.chainId },
    { logger: new RecordingLogger(), clock: systemClock },
  );
  try {
    await store.initialise({
      ...{ schemaVersion: SCHEMA_VERSION, createdBy: 'a test', sporks: [] },
      ...meta,
      firstHeight: blocks[0]?.height ?? 0,
    });
    for (let at = 0; at < blocks.length; at += BATCH_HEIGHTS) {
      const batch = blocks.slice(at, at + BATCH_HEIGHTS);
      await store.commit({
        blocks: batch.map(entryOf),
        latestIndexedHeight: batch.at(-1)?.height ?? 0,
      });
    }
  } finally {
    await store.close();
  }
}

/** The entry that a daemon makes of a generated block. */
export function entryOf(block: GeneratedBlock): BlockEntry {
  return {
    block: decodeBlockMessage(Buffer.from(block.encoded)),
    collections: block.collections.map(({ id, transactions }) => verifyCollection(id, transactions)),
  };
}
