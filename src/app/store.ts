import type { DaemonConfig } from '../config/index.js';
import { silentLogger } from '../observability/index.js';
import { OperatorError, systemClock } from '../runtime/index.js';
import { LevelIndexStore, repairStore } from '../storage/index.js';
import type { IndexStore, RepairReport } from '../storage/index.js';
import { storePathOf } from './daemonRecord.js';

/** How a store is opened: as `LevelIndexStore.open`, with its expected errors. */
export type OpenStore = (...how: Parameters<typeof LevelIndexStore.open>) => Promise<IndexStore>;

export const openLevelStore: OpenStore = (options, dependencies) =>
  LevelIndexStore.open(options, dependencies);

/**
 * Opens the store of a configuration for a command that only reads. Expected errors: OperatorError (no store there,
 * locked by a running daemon, another chain, a newer schema).
 */
export function openStoreReadOnly(config: DaemonConfig): Promise<LevelIndexStore> {
  return LevelIndexStore.open(
    { path: storePathOf(config.dataDir), chainId: config.chainId, create: false },
    { logger: silentLogger, clock: systemClock },
  );
}

/**
 * Forgets everything above `height`. Returns the watermark before and after. Expected errors: as `openStoreReadOnly`;
 * OperatorError `usage` when there is nothing to keep at that height.
 */
export async function rewindStore(
  config: DaemonConfig,
  height: number,
  { openStore = openLevelStore }: { readonly openStore?: OpenStore } = {},
): Promise<{ readonly from: number; readonly to: number }> {
  const store = await openStore(
    { path: storePathOf(config.dataDir), chainId: config.chainId, create: false, forRewind: true },
    { logger: silentLogger, clock: systemClock },
  );
  try {
    const meta = store.meta();
    if (meta === undefined)
      throw new OperatorError('usage', 'The store is empty: there is nothing to rewind.');
    const from = store.latestIndexedHeight();
    if (height < meta.firstHeight - 1 || height > from) {
      throw new OperatorError(
        'usage',
        `--to ${height} is outside what can be kept: the store holds heights ${meta.firstHeight} to ${from}. ` +
          `Give a height from ${meta.firstHeight - 1} (forget everything) to ${from}.`,
      );
    }
    await store.rewind(height);
    return { from, to: height };
  } finally {
    await store.close();
  }
}

/**
 * Forgets the account index of a store. Returns how many entries it had; `undefined` when there was none. Expected errors: as
 * `openStoreReadOnly`.
 */
export async function forgetAccountsOf(config: DaemonConfig): Promise<number | undefined> {
  const store = await LevelIndexStore.open(
    { ...verifyTarget(config), create: false },
    { logger: silentLogger, clock: systemClock },
  );
  try {
    return store.meta() === undefined ? undefined : await store.forgetAccounts();
  } finally {
    await store.close();
  }
}

/** Where a verification finds its store. */
export function verifyTarget(config: DaemonConfig): { readonly path: string; readonly chainId: string } {
  return { path: storePathOf(config.dataDir), chainId: config.chainId };
}

/**
 * Finds out what of a damaged store can be kept, and with `apply` keeps it and forgets the rest. Expected errors:
 * OperatorError (no store there, locked by a running daemon, another chain, nothing that can be kept).
 */
export function repairStoreOf(
  config: DaemonConfig,
  { apply, signal }: { readonly apply: boolean; readonly signal: AbortSignal },
): Promise<RepairReport> {
  return repairStore({ ...verifyTarget(config), apply }, { logger: silentLogger, signal });
}
