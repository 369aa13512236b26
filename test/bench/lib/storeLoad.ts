import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { silentLogger } from '../../../src/observability/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import { LevelIndexStore, loadPostgres, SCHEMA_VERSION } from '../../../src/storage/index.js';
import type { BlockEntry, HeightRange, IndexStore, SharedStore } from '../../../src/storage/index.js';
import { CHAIN_ID, FIRST_HEIGHT } from './blockEntries.js';
import type { BenchPostgres } from './benchPostgres.js';
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

/** Milliseconds per block: by the clock, and of the processors, for this process and for the server. */
export interface WriteCost {
  readonly wallMs: number;
  readonly ownMs: number;
  readonly serverMs: number;
}

/** Writes all blocks to a new database. Returns what each takes, and how many bytes with its indexes. */
export async function loadDatabase(
  server: BenchPostgres,
  url: string,
  blocks: readonly BlockEntry[],
): Promise<WriteCost & { readonly bytesPerBlock: number }> {
  const { shared, store } = await beginDatabase(url, blocks);
  const before = await shared.sizeBytes();
  const count = blocks.length - COMMIT_HEIGHTS;
  const cost = await costOf(server, count, () => writeAll(store, blocks.slice(COMMIT_HEIGHTS)));
  const bytes = (await shared.sizeBytes()) - before;
  await store.close();
  return { ...cost, bytesPerBlock: bytes / count };
}

/** Writes the first commit alone, so that tables and partitions are there. */
export async function prepareDatabase(url: string, blocks: readonly BlockEntry[]): Promise<void> {
  const { store } = await beginDatabase(url, blocks);
  await store.close();
}

export function copyAll(
  server: BenchPostgres,
  writer: CopyOnlyWriter,
  commits: readonly CommitRows[],
): Promise<WriteCost> {
  return costOf(server, commits.length * COMMIT_HEIGHTS, async () => {
    for (const commit of commits) await writer.write(commit);
  });
}

async function costOf(server: BenchPostgres, blocks: number, write: () => Promise<void>): Promise<WriteCost> {
  const [wallMs, ownMs, serverMs] = [performance.now(), process.cpuUsage(), server.processorMs()];
  await write();
  const { user, system } = process.cpuUsage(ownMs);
  return {
    wallMs: (performance.now() - wallMs) / blocks,
    ownMs: (user + system) / 1_000 / blocks,
    serverMs: (server.processorMs() - serverMs) / blocks,
  };
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
