import type { DaemonConfig } from '../../config/index.js';
import { formatCount, formatSize, type Logger } from '../../observability/index.js';
import { migrateStore, type MigrationProgress, type MigrationReport } from '../../ranges/index.js';
import { OperatorError, withoutUrlPaths, type Clock } from '../../runtime/index.js';
import { backupStore, holdsData, loadRestore } from '../../storage/index.js';
import type { BackupReport, RestoreDependencies, VerifyReport } from '../../storage/index.js';
import { storePathOf } from '../lifecycle/daemonRecord.js';
import { objectionsOf } from '../lifecycle/knownBlocks.js';
import { checkDatabaseUrls, closing, forCommand, takeLead } from './databases.js';
import { openForCommand, openStoreReadOnly, refuseDatabase, storeAt } from './openStore.js';

/** How often the progress of a restore is logged. */
const LOG_EVERY_MS = 10_000;

type RestoreProgress = Parameters<NonNullable<RestoreDependencies['onProgress']>>[0];

/**
 * Copies the store of a configuration, which a daemon may be using, to a new directory that is laid out like a data
 * directory. Expected errors: as `backupStore`; OperatorError `usage` if a database holds the index.
 */
export async function backupStoreOf(
  config: DaemonConfig,
  to: string,
  reporting: Pick<RestoreDependencies, 'onProgress' | 'signal'>,
): Promise<BackupReport> {
  refuseDatabase(config, 'copy the database with its own tools (pg_dump, or a base backup)');
  const { chainId, dataDir } = config;
  const options = { path: storePathOf(dataDir), to: storePathOf(to), chainId };
  return backupStore(options, { ...forCommand, ...reporting });
}

/** Creates the store of a configuration from a snapshot. Expected errors: as `restoreStore`; OperatorError `usage`. */
export async function restoreStoreOf(
  config: DaemonConfig,
  from: string,
  dependencies: Pick<RestoreDependencies, 'signal' | 'onProgress'>,
): Promise<VerifyReport> {
  refuseDatabase(config, 'restore it as a directory, then "migrate" that to the database');
  const { restoreStore } = await loadRestore();
  const { chainId, dataDir, proof } = config;
  const objectionTo = await objectionsOf(config, { mustBeProven: proof.mode === 'required' });
  const options = { from, path: storePathOf(dataDir), chainId, objectionTo };
  return restoreStore(options, { ...forCommand, ...dependencies });
}

/**
 * Creates the store of a daemon from a snapshot, unless a store exists. Logs its progress. Leaves no store when the signal
 * aborts. Expected errors: as `restoreStoreOf`; the signal's abort reason.
 */
export async function seedStore(
  config: DaemonConfig,
  from: string,
  { clock, logger, signal }: { readonly clock: Clock; readonly logger: Logger; readonly signal: AbortSignal },
): Promise<void> {
  const shown = { from: withoutUrlPaths(from) };
  if (config.store === undefined && (await holdsData(storePathOf(config.dataDir)))) {
    logger.info(shown, 'there is a store already; the snapshot is not used');
    return;
  }
  logger.info(shown, 'restoring a snapshot; the daemon serves once it has been verified');
  let loggedAtMs = clock.monotonic();
  const onProgress = (progress: RestoreProgress): void => {
    if (clock.monotonic() - loggedAtMs < LOG_EVERY_MS) return;
    loggedAtMs = clock.monotonic();
    logger.info({ progress: restoreInWords(progress) }, 'restoring a snapshot');
  };
  const { heights, proven, transactions } = await restoreStoreOf(config, from, { signal, onProgress });
  logger.info({ heights, proven, transactions }, 'the snapshot is restored, every id recomputed');
}

/**
 * Copies the covered ranges and the plans of one store to another, which it creates if necessary. Expected errors: as
 * `openStoreReadOnly` and `migrateStore`; OperatorError `usage` when both are the same store.
 */
export async function migrateStores(
  config: DaemonConfig,
  { from, to }: { readonly from: string; readonly to: string },
  dependencies: { readonly signal: AbortSignal; readonly onProgress: (progress: MigrationProgress) => void },
): Promise<MigrationReport> {
  const [sourceConfig, targetConfig] = [storeAt(config, from), storeAt(config, to)];
  if (sourceConfig.store === targetConfig.store && sourceConfig.dataDir === targetConfig.dataDir)
    throw new OperatorError('usage', 'The source and the target are the same store.');
  await checkDatabaseUrls({ '--from': sourceConfig.store, '--to': targetConfig.store }, () => 'usage');
  return closing(await openStoreReadOnly(sourceConfig), async (source) => {
    const opening = openForCommand(targetConfig, { create: true });
    return closing(await opening, async (target) => {
      await takeLead(targetConfig, target);
      return migrateStore({ source, target, ...dependencies });
    });
  });
}

export function restoreInWords(progress: RestoreProgress): string {
  switch (progress.phase) {
    case 'download': {
      const { bytes, ofBytes } = progress;
      return `received ${formatSize(bytes)}${ofBytes === undefined ? '' : ` of ${formatSize(ofBytes)}`}`;
    }
    case 'copy':
      return `copied ${formatSize(progress.bytes)}`;
    case 'blocks':
      return `verifying height ${formatCount(progress.height)} of ${formatCount(progress.to)}`;
    case 'pointers':
      return `verifying pointers: ${formatCount(progress.pointers)} so far`;
  }
}
