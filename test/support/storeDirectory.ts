import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach } from 'vitest';
import { systemClock, type Clock } from '../../src/runtime/index.js';
import { LevelIndexStore, repairStore, verifyStore } from '../../src/storage/index.js';
import type { BlockEntry, Database, IndexStore, ShownIndex, StoreMeta } from '../../src/storage/index.js';
import type { VerifyDependencies, VerifyOptions, VerifyReport } from '../../src/storage/index.js';
import type { LevelIndexStoreOptions } from '../../src/storage/leveldb/LevelIndexStore.js';
import { withRawDatabase, type RawDatabase } from './rawStore.js';
import { RecordingLogger } from './recordingLogger.js';

export const TEST_CHAIN = 'flow-localnet';

/** Directories and stores that are gone after each test of the file that calls this. */
export function useStores() {
  const directories: string[] = [];
  const stores: LevelIndexStore[] = [];

  afterEach(async () => {
    for (const store of stores.splice(0)) await store.close();
    for (const directory of directories.splice(0)) await rm(directory, { recursive: true, force: true });
  });

  const freshPath = async (): Promise<string> => {
    const directory = await mkdtemp(join(tmpdir(), 'fci-store-'));
    directories.push(directory);
    return join(directory, 'store');
  };

  const open = async (
    path: string,
    options: Partial<LevelIndexStoreOptions> = {},
    logger = new RecordingLogger(),
    clock: Clock = systemClock,
  ): Promise<LevelIndexStore> => {
    const store = await LevelIndexStore.open({ path, chainId: TEST_CHAIN, ...options }, { logger, clock });
    stores.push(store);
    return store;
  };

  /** An initialised store with these blocks, all of them at or below the watermark. */
  const filled = async (blocks: readonly BlockEntry[], path?: string): Promise<LevelIndexStore> => {
    const opening = open(path ?? (await freshPath()));
    return begin(opening, blocks[0]?.block.height ?? 1, blocks);
  };

  /** The path of a closed store with these blocks. */
  const closedStore = async (blocks: readonly BlockEntry[]): Promise<string> => {
    const path = await freshPath();
    await (await filled(blocks, path)).close();
    return path;
  };

  /** The same, changed behind its back. */
  const changedStore = async (
    blocks: readonly BlockEntry[],
    change: (database: RawDatabase) => Promise<unknown>,
  ): Promise<string> => {
    const path = await closedStore(blocks);
    await withRawDatabase(path, change);
    return path;
  };

  return { freshPath, open, filled, closedStore, changedStore };
}

export function metaFrom(firstHeight: number, overrides: Partial<StoreMeta> = {}): StoreMeta {
  return {
    schemaVersion: 1,
    chainId: TEST_CHAIN,
    firstHeight,
    createdBy: '0.0.0-test',
    sporks: [{ rootHeight: firstHeight, sporkId: 'aa' }],
    ...overrides,
  };
}

/** A store that begins at a height, and then holds these blocks, up to a watermark; by default the highest of them. */
export async function begin<S extends IndexStore>(
  opening: Promise<S>,
  firstHeight: number,
  blocks: readonly BlockEntry[] = [],
  latestIndexedHeight = firstHeight + blocks.length - 1,
): Promise<S> {
  const store = await opening;
  await store.initialise(metaFrom(firstHeight));
  if (blocks.length > 0) await store.commit({ blocks, latestIndexedHeight });
  return store;
}

/** What replicas of a store are told to show of it. */
export function shownOf(store: IndexStore): ShownIndex {
  return {
    ...{ meta: store.meta(), latestIndexedHeight: store.latestIndexedHeight(), coverage: store.coverage() },
    ...{ latestBlock: store.latestBlock(), rewinds: store.rewinds(), accounts: store.accounts.coverage() },
  };
}

/** A store over a database that outlives it. */
export function storeOver(database: Database, accounts?: boolean): Promise<LevelIndexStore> {
  const options = { path: 'memory', chainId: TEST_CHAIN, ...(accounts === undefined ? {} : { accounts }) };
  return LevelIndexStore.over(database, options, { logger: new RecordingLogger(), clock: systemClock });
}

export function verifyAt(
  path: string,
  options: Partial<VerifyOptions> = {},
  more: Pick<VerifyDependencies, 'signal' | 'onProgress'> = {},
): Promise<VerifyReport> {
  return verifyStore({ path, chainId: TEST_CHAIN, ...options }, { logger: new RecordingLogger(), ...more });
}

export function repairAt(
  path: string,
  {
    signal,
    onProgress,
    ...options
  }: { readonly apply?: boolean; readonly chainId?: string } & Partial<VerifyDependencies> = {},
): ReturnType<typeof repairStore> {
  return repairStore(
    { path, chainId: TEST_CHAIN, apply: true, ...options },
    { logger: new RecordingLogger(), ...(signal && { signal }), ...(onProgress && { onProgress }) },
  );
}
