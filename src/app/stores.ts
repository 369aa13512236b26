import { ok as assert } from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { readSporkTable } from '../access/index.js';
import type { BackfillStatus, PlannedHeight } from '../api/index.js';
import { MAX_HEIGHT } from '../config/index.js';
import type { DaemonConfig } from '../config/index.js';
import { silentLogger } from '../observability/index.js';
import type { Logger } from '../observability/index.js';
import { LocalWorkSource, migrateStore, storedSource } from '../ranges/index.js';
import type { MigrationProgress, MigrationReport, SharedQueue, WorkSource } from '../ranges/index.js';
import { OperatorError, packageRoot, sleep, systemClock, systemRandom } from '../runtime/index.js';
import type { Clock } from '../runtime/index.js';
import {
  LevelIndexStore,
  loadPostgres,
  rangesInWords,
  repairStore,
  sharedRangesOf,
  StorageError,
  verifyStore,
} from '../storage/index.js';
import type {
  HeightRange,
  IndexStore,
  RepairReport,
  VerifyDependencies,
  VerifyOptions,
  VerifyReport,
} from '../storage/index.js';
import { DATABASE_WAIT_MS, onQueue, takeLead, whileNobodyLeads } from './databases.js';
import { documentOf, plannedAt, rangeAtRest } from './health/watches/BackfillWatch.js';
import { daemonRuns, storePathOf } from './lifecycle/daemonRecord.js';
import { obeyBackfill } from './line/history/backfillCommand.js';
import type { BackfillCommand, BackfillOutcome } from './line/history/backfillCommand.js';
import { heightsOf } from './line/history/plannedHeights.js';

/** How a store is opened: like `LevelIndexStore.open`, with its expected errors. */
export type OpenStore = (...how: Parameters<typeof LevelIndexStore.open>) => Promise<IndexStore>;

export const openLevelStore: OpenStore = (options, dependencies) =>
  LevelIndexStore.open(options, dependencies);

/** How long a command that reads a store waits for another one to finish, and how often it checks. */
const LOCK_WAIT_MS = 5_000;
const LOCK_LOOK_MS = 200;

/** The store that a daemon indexes into. Expected errors: those of `OpenStore`, and of `PostgresIndexStore.open`. */
export async function openStoreToIndex(
  config: DaemonConfig,
  {
    openStore,
    ...dependencies
  }: { readonly openStore: OpenStore; readonly clock: Clock; readonly logger: Logger },
): Promise<IndexStore> {
  const { chainId, dataDir, index, store: url } = config;
  if (url === undefined) {
    const options = { path: storePathOf(dataDir), chainId, accounts: index.accounts, isShared: true };
    return openStore(options, dependencies);
  }
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const { PostgresIndexStore } = await loadPostgres();
  const options = { url, chainId, accounts: index.accounts, waitMs: DATABASE_WAIT_MS };
  return PostgresIndexStore.open(options, dependencies);
}

/**
 * Opens the store of a configuration for a command that only reads. Expected errors: OperatorError (no store there,
 * locked by a running daemon, or by another command for longer than LOCK_WAIT_MS, another chain, a newer schema, a database
 * that does not answer).
 */
export function openStoreReadOnly(config: DaemonConfig): Promise<IndexStore> {
  return openStoreWithoutDaemon(config, { isReadOnly: true });
}

/** As `openStoreReadOnly`; `isReadOnly` false: also for a command that changes the store. */
export async function openStoreWithoutDaemon(
  config: DaemonConfig,
  { isReadOnly, create = false }: { readonly isReadOnly: boolean; readonly create?: boolean },
): Promise<IndexStore> {
  const dependencies = { logger: silentLogger, clock: systemClock };
  const { chainId, store: url } = config;
  if (url !== undefined) {
    const { PostgresIndexStore } = await loadPostgres();
    return PostgresIndexStore.open({ url, chainId, create, isReadOnly }, dependencies);
  }
  return whenFree(config, () => LevelIndexStore.open({ ...placeOf(config), create }, dependencies));
}

/** Like `verifyStore`, for the store of a configuration. Also expected: the errors of `openStoreReadOnly`. */
export async function verifyStoreOf(
  config: DaemonConfig,
  range: Pick<VerifyOptions, 'from' | 'to'>,
  dependencies: Pick<VerifyDependencies, 'onProgress' | 'signal'>,
): Promise<VerifyReport> {
  const { chainId, store: url } = config;
  if (url !== undefined) {
    const { verifyPostgres } = await loadPostgres();
    return verifyPostgres(
      { url, chainId, ...range },
      { clock: systemClock, logger: silentLogger, ...dependencies },
    );
  }
  const options = { ...placeOf(config), ...range };
  return whenFree(config, () => verifyStore(options, { logger: silentLogger, ...dependencies }));
}

/** A daemon keeps its lock, so only other commands are waited for. */
async function whenFree<T>(config: DaemonConfig, use: () => Promise<T>): Promise<T> {
  const untilMs = systemClock.monotonic() + LOCK_WAIT_MS;
  for (;;) {
    try {
      return await use();
    } catch (error) {
      if (!(error instanceof StorageError && error.kind === 'locked')) throw error;
      if (daemonRuns(config.dataDir) || systemClock.monotonic() >= untilMs) throw error;
    }
    await sleep(systemClock, LOCK_LOOK_MS);
  }
}

/**
 * Changes what history is filled in, on a store without a daemon: the next one begins with it. Expected errors: those
 * of `openStoreReadOnly`; OperatorError `usage`.
 */
export async function commandStore(config: DaemonConfig, command: BackfillCommand): Promise<BackfillOutcome> {
  const sporks = await readSporkTable(join(packageRoot, 'config', 'sporks.json'), config.network);
  return onStore(config, { isReadOnly: false }, (store, source) =>
    obeyBackfill(command, source, (heights, order) =>
      source.plan({ ...heightsOf(heights, store, { sporks }), order }),
    ),
  );
}

/** A place where a store is: a directory of data, or the URL of a database. */
export function storeAt(config: DaemonConfig, place: string): DaemonConfig {
  const isDatabase = /^postgres(?:ql)?:/.test(place);
  return isDatabase ? { ...config, store: place } : { ...config, dataDir: resolve(place), store: undefined };
}

/**
 * Copies the covered ranges and the plans of one store to another, which is made where there is none. Expected errors: as
 * `openStoreReadOnly` and `migrateStore`; OperatorError `usage` where both are the same place.
 */
export async function migrateStores(
  config: DaemonConfig,
  { from, to }: { readonly from: string; readonly to: string },
  dependencies: {
    readonly signal: AbortSignal;
    readonly onProgress: (progress: MigrationProgress) => void;
  },
): Promise<MigrationReport> {
  const [its, ours] = [storeAt(config, from), storeAt(config, to)];
  if (its.store === ours.store && its.dataDir === ours.dataDir)
    throw new OperatorError('usage', 'The source and the target are the same store.');
  const source = await openStoreReadOnly(its);
  try {
    const target = await openStoreWithoutDaemon(ours, { isReadOnly: false, create: true });
    try {
      await takeLead(ours, target);
      return await migrateStore({ source: storedSource(source), target, ...dependencies });
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

/** What is planned on a store that no daemon runs on. Expected errors: as `openStoreReadOnly`. */
export function backfillOf(config: DaemonConfig): Promise<BackfillStatus> {
  return onStore(config, { isReadOnly: true }, (_store, source) =>
    Promise.resolve(documentOf(source.status())),
  );
}

/** The plan to fill in a height of a store without a daemon. */
export function plannedHeightOf(store: IndexStore, height: number): PlannedHeight | undefined {
  return plannedAt(height, sourceOf(store).status(), rangeAtRest);
}

async function onStore<T>(
  config: DaemonConfig,
  { isReadOnly }: { readonly isReadOnly: boolean },
  use: (store: IndexStore, source: WorkSource) => Promise<T>,
): Promise<T> {
  const { store: url } = config;
  // What is planned in a database may be changed beside those who fill it.
  const store = await openStoreWithoutDaemon(config, { isReadOnly: isReadOnly || url !== undefined });
  try {
    if (url === undefined) return await use(store, sourceOf(store));
    return await onQueue(config, async (queue) => use(store, await sharedSourceOf(config, store, queue)));
  } finally {
    await store.close();
  }
}

/** Its ranges are cut when they are planned, so the borders must be known. */
async function sharedSourceOf(
  { network }: DaemonConfig,
  store: IndexStore,
  queue: SharedQueue,
): Promise<WorkSource> {
  const book = sharedRangesOf(store);
  assert(book !== undefined, 'a database is shared');
  const sporks = await readSporkTable(join(packageRoot, 'config', 'sporks.json'), network);
  const borders = sporks.map(({ rootHeight }) => rootHeight);
  const chain = { borders: () => borders, served: () => [{ from: 0, to: MAX_HEIGHT }] };
  const source = queue.source({}, { book, chain });
  await source.refresh();
  return source;
}

/** It is unknown what the nodes serve: assume everything. */
function sourceOf(store: IndexStore): LocalWorkSource {
  const chain = { borders: () => [], served: () => [{ from: 0, to: MAX_HEIGHT }] };
  const parts = { store, chain, clock: systemClock, random: systemRandom, logger: silentLogger };
  return new LocalWorkSource({}, parts);
}

/** What a rewind deletes. */
export interface RewindReport {
  /** The watermark. */
  readonly from: number;
  /** The watermark afterwards: below the requested height if no range has that height. */
  readonly through: number;
  /** What is deleted: in all ranges, and the blocks above the watermark. `undefined`: nothing. */
  readonly forgotten: { readonly heights: number; readonly from: number; readonly to: number } | undefined;
}

/**
 * Finds out what is stored above `height`, and with `apply` deletes it. Expected errors: those of `openStoreReadOnly`;
 * OperatorError `usage` when there is nothing to keep at that height.
 */
export async function rewindStore(
  config: DaemonConfig,
  height: number,
  {
    openStore = openLevelStore,
    apply = true,
  }: { readonly openStore?: OpenStore; readonly apply?: boolean } = {},
): Promise<RewindReport> {
  const dependencies = { logger: silentLogger, clock: systemClock };
  const how = { chainId: config.chainId, create: false, forRewind: true };
  const store =
    config.store === undefined
      ? await openStore({ ...how, path: storePathOf(config.dataDir) }, dependencies)
      : await (await loadPostgres()).PostgresIndexStore.open({ ...how, url: config.store }, dependencies);
  try {
    const meta = store.meta();
    if (meta === undefined || store.latestIndexedHeight() < 0)
      throw new OperatorError('usage', 'The store is empty: there is nothing to rewind.');
    const from = store.latestIndexedHeight();
    const ranges = store.coverage();
    const lowest = ranges[0]?.from ?? meta.firstHeight;
    const isOnly = ranges.length <= 1;
    if (height < lowest - (isOnly ? 1 : 0) || height > from) {
      throw new OperatorError(
        'usage',
        `--to ${height} is outside what can be kept: the store holds heights ${rangesInWords(ranges)}. ` +
          (lowest === 0 || !isOnly
            ? `Give a height from ${lowest} to ${from}.`
            : `Give a height from ${lowest - 1} (forget everything) to ${from}.`),
      );
    }
    const through = Math.min(height, ranges.findLast((range) => range.from <= height)?.to ?? height);
    const waiting = store.blocksAboveWatermark();
    const open = store.ranges.open().map((range) => ({ from: range.from, to: range.next - 1 }));
    const heights = heightsAbove([...ranges, ...open], through) + waiting.length;
    if (apply) {
      await takeLead(config, store);
      await store.rewind(height);
    }
    const to = waiting.at(-1)?.height ?? from;
    return { from, through, forgotten: heights === 0 ? undefined : { heights, from: through + 1, to } };
  } finally {
    await store.close();
  }
}

function heightsAbove(ranges: readonly HeightRange[], height: number): number {
  return ranges.reduce((sum, { from, to }) => sum + Math.max(0, to - Math.max(from - 1, height)), 0);
}

/**
 * Deletes the account index of a store. Returns how many entries it had; `undefined` when there was none. Expected
 * errors: those of `openStoreReadOnly`.
 */
export async function forgetAccountsOf(config: DaemonConfig): Promise<number | undefined> {
  refuseDatabase(config, 'the account index is part of the tables there, and written with every block');
  const store = await LevelIndexStore.open(
    { ...placeOf(config), create: false },
    { logger: silentLogger, clock: systemClock },
  );
  try {
    return store.meta() === undefined ? undefined : await store.forgetAccounts();
  } finally {
    await store.close();
  }
}

/** The path of a store, and its chain. */
function placeOf(config: DaemonConfig): { readonly path: string; readonly chainId: string } {
  return { path: storePathOf(config.dataDir), chainId: config.chainId };
}

/**
 * Finds out what can be kept of a damaged store, and with `apply` keeps that and deletes the rest. Expected errors:
 * OperatorError (no store there, locked by a running daemon, or by one that leads, another chain, nothing that can be kept).
 */
export async function repairStoreOf(
  config: DaemonConfig,
  { apply, signal }: { readonly apply: boolean; readonly signal: AbortSignal },
): Promise<RepairReport> {
  const { chainId, store: url } = config;
  if (url !== undefined) {
    const { repairPostgres } = await loadPostgres();
    const dependencies = { clock: systemClock, logger: silentLogger, signal };
    if (!apply) return repairPostgres({ url, chainId, apply }, dependencies);
    return whileNobodyLeads(config, async (queue) =>
      repairPostgres({ url, chainId, apply, lastPlan: await queue.lastPlan() }, dependencies),
    );
  }
  return repairStore({ ...placeOf(config), apply }, { logger: silentLogger, signal });
}

/** Expected errors: OperatorError (`usage`) when a database holds the index. */
export function refuseDatabase({ store }: DaemonConfig, why: string): void {
  if (store === undefined) return;
  throw new OperatorError(
    'usage',
    `This is for a store in a data directory, and the index is in a database (store): ${why}.`,
  );
}
