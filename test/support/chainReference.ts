import { programVersion } from '../../src/app/index.js';
import { ChainGenerator, oddKinds, profiles } from '../../src/devnet/index.js';
import type { ChainOptions, GeneratedBlock } from '../../src/devnet/index.js';
import { decodeBlockMessage, verifyCollection } from '../../src/flow/index.js';
import { SCHEMA_VERSION } from '../../src/storage/index.js';
import type { BlockEntry, LevelIndexStore, StoreMeta } from '../../src/storage/index.js';
import { scratchDirectory } from './program.js';
import { batchOf } from './storeBlocks.js';
import { storePath, withStore } from './storeDump.js';

/** Blocks of one batch while the reference store is written. */
const BATCH_HEIGHTS = 100;

export function blocksOf(chain: ChainGenerator, from: number, to: number): GeneratedBlock[] {
  return Array.from({ length: to - from + 1 }, (_, index) => chain.block(from + index));
}

/** A chain that has every odd thing that the simulation knows, big collections included, within these heights. */
export function oddChain(seed: number, from: number, to: number, bigCollectionBytes = 2_800_000) {
  const every = Object.entries({ ...profiles.mixed.odd, bigCollection: 301 });
  const odd = Object.fromEntries(every.map(([kind, blocks]) => [kind, Math.ceil(blocks / 3)]));
  const options: ChainOptions = {
    ...{ seed, rootHeight: from },
    profile: { base: 'mixed', bigCollectionBytes, odd },
  };
  const chain = new ChainGenerator(options);
  const blocks = blocksOf(chain, from, to);
  const lacking = oddKinds.filter((kind) => !blocks.some((block) => block.odd.includes(kind)));
  if (lacking.length > 0) throw new Error(`no block is odd in these ways: ${lacking.join(', ')}`);
  return { options, chain, blocks };
}

/** A directory with the store that a daemon must end up with, straight from the chain: no node, no source, no daemon. */
export async function filledDirectory(
  { chain, from, to }: { readonly chain: ChainGenerator; readonly from: number; readonly to: number },
  dataDir = scratchDirectory(),
): Promise<string> {
  const { chainId, rootHeight, sporkId } = chain;
  const createdBy = `flow-collection-indexer ${programVersion}`;
  const blocks = blocksOf(chain, from, to).map(entryOf);
  await writeStore(dataDir, blocks, { chainId, createdBy, sporks: [{ rootHeight, sporkId }] });
  return dataDir;
}

export function writeStore(
  dataDir: string,
  blocks: readonly BlockEntry[],
  meta: Partial<StoreMeta> = {},
): Promise<void> {
  const { chainId = 'flow-localnet' } = meta;
  const write = async (store: LevelIndexStore): Promise<void> => {
    const { height: firstHeight = 0 } = blocks[0]?.block ?? {};
    await store.initialise({
      ...{ schemaVersion: SCHEMA_VERSION, createdBy: 'a test', sporks: [], chainId },
      ...{ ...meta, firstHeight },
    });
    for (let at = 0; at < blocks.length; at += BATCH_HEIGHTS)
      await store.commit(batchOf(...blocks.slice(at, at + BATCH_HEIGHTS)));
  };
  return withStore(storePath(dataDir), write, { chainId, create: true });
}

/** The entry that a daemon makes of a generated block. */
export function entryOf(block: GeneratedBlock): BlockEntry {
  return {
    block: decodeBlockMessage(Buffer.from(block.encoded)),
    collections: block.collections.map(({ id, transactions }) => verifyCollection(id, transactions)),
  };
}
