import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { silentLogger } from '../../../src/observability/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import { LevelIndexStore, loadPostgres, SCHEMA_VERSION } from '../../../src/storage/index.js';
import type { BlockEntry, HeightRange, IndexStore, SharedStore } from '../../../src/storage/index.js';
import { CHAIN_ID, FIRST_HEIGHT } from './blockEntries.js';
import type { CopyOnlyWriter, CommitRows } from './copyOnly.js';
import { scratch } from './processes.js';

/** Heights of one commit, as the indexer makes them while it catches up. */
const COMMIT_HEIGHTS = 20;

const dependencies = { logger: silentLogger, clock: systemClock };

/** The heights of each commit but the first, which makes tables and partitions and is nobody's to measure. */
export function laterCommits(blocks: readonly BlockEntry[]): HeightRange[] {
  const starts = blocks.flatMap(({ block: { height } }, at) => (at % COMMIT_HEIGHTS === 0 ? [height] : []));
  return starts.slice(1).map((from) => ({ from, to: from + COMMIT_HEIGHTS - 1 }));
}

/** Writes all blocks to a new database. Returns blocks per second, and the bytes that a block takes up with its indexes. */
export async function loadDatabase(
  url: string,
  blocks: readonly BlockEntry[],
): Promise<{ readonly blocksPerSecond: number; readonly bytesPerBlock: number }> {
  const { shared, store } = await beginDatabase(url, blocks);
  const before = await shared.weigh();
  const startedAtMs = performance.now();
  await writeAll(store, blocks.slice(COMMIT_HEIGHTS));
  const tookMs = performance.now() - startedAtMs;
  const bytes = (await shared.weigh()) - before;
  await store.close();
  const count = blocks.length - COMMIT_HEIGHTS;
  return { blocksPerSecond: (1_000 * count) / tookMs, bytesPerBlock: bytes / count };
}

/** Writes the first commit alone, so that tables and partitions are there. */
export async function prepareDatabase(url: string, blocks: readonly BlockEntry[]): Promise<void> {
  const { store } = await beginDatabase(url, blocks);
  await store.close();
}

/** Returns blocks per second. */
export async function copyAll(writer: CopyOnlyWriter, commits: readonly CommitRows[]): Promise<number> {
  const startedAtMs = performance.now();
  for (const commit of commits) await writer.write(commit);
  return (1_000 * commits.length * COMMIT_HEIGHTS) / (performance.now() - startedAtMs);
}

/** Writes all blocks to a new directory. Returns the bytes of its files per block. */
export async function bytesInDirectory(blocks: readonly BlockEntry[]): Promise<number> {
  const directory = mkdtempSync(join(scratch, 'data-'));
  const path = join(directory, 'index');
  const store = await LevelIndexStore.open({ path, chainId: CHAIN_ID }, dependencies);
  await begin(store);
  await writeAll(store, blocks);
  await store.close();
  const bytes = readdirSync(path).reduce((sum, name) => sum + statSync(join(path, name)).size, 0);
  rmSync(directory, { recursive: true });
  return bytes / blocks.length;
}

async function beginDatabase(
  url: string,
  blocks: readonly BlockEntry[],
): Promise<{ readonly store: IndexStore; readonly shared: SharedStore }> {
  const { PostgresIndexStore } = await loadPostgres();
  const store = await PostgresIndexStore.open({ url, chainId: CHAIN_ID }, dependencies);
  const { shared } = store;
  await shared.lead();
  await begin(store);
  await writeAll(store, blocks.slice(0, COMMIT_HEIGHTS));
  return { store, shared };
}

function begin(store: IndexStore): Promise<void> {
  return store.initialise({
    ...{ schemaVersion: SCHEMA_VERSION, chainId: CHAIN_ID, firstHeight: FIRST_HEIGHT },
    ...{ createdBy: 'bench', sporks: [] },
  });
}

/** As the indexer does: while one commit is under way, the next one is prepared. */
async function writeAll(store: IndexStore, blocks: readonly BlockEntry[]): Promise<void> {
  let writing = Promise.resolve();
  for (let at = 0; at < blocks.length; at += COMMIT_HEIGHTS) {
    const batch = blocks.slice(at, at + COMMIT_HEIGHTS);
    for (const entry of batch) store.stage(entry);
    await writing;
    const latestIndexedHeight = batch.at(-1)?.block.height ?? store.latestIndexedHeight();
    writing = store.commit({ blocks: batch, latestIndexedHeight });
  }
  await writing;
}
