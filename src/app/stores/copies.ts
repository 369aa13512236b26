import type { DaemonConfig } from '../../config/index.js';
import { formatCount, silentLogger } from '../../observability/index.js';
import type { Logger } from '../../observability/index.js';
import { systemClock, wasAborted } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { backupStore, holdsData, loadRestore } from '../../storage/index.js';
import type { BackupReport, RestoreDependencies, VerifyReport } from '../../storage/index.js';
import { storePathOf } from '../lifecycle/daemonRecord.js';
import { refuseDatabase } from './openStore.js';

/** How often the progress of a restore is logged. */
const LOG_EVERY_MS = 10_000;
const MIB = 1024 * 1024;

export type RestoreProgress = Parameters<NonNullable<RestoreDependencies['onProgress']>>[0];

/**
 * Copies the store of a configuration, which a daemon may be using, to a new directory that is laid out like a data
 * directory. Expected errors: as `backupStore`; OperatorError `usage` where a database holds the index.
 */
export async function backupStoreOf(config: DaemonConfig, to: string): Promise<BackupReport> {
  refuseDatabase(config, 'copy the database with its own tools (pg_dump, or a base backup)');
  const { chainId, dataDir } = config;
  return backupStore(
    { path: storePathOf(dataDir), to: storePathOf(to), chainId },
    { logger: silentLogger, clock: systemClock },
  );
}

/** Makes the store of a configuration of a snapshot. Expected errors: as `restoreStore`; OperatorError `usage`. */
export async function restoreStoreOf(
  config: DaemonConfig,
  from: string,
  dependencies: Pick<RestoreDependencies, 'signal' | 'onProgress'>,
): Promise<VerifyReport> {
  refuseDatabase(config, 'restore it as a directory, then "migrate" that to the database');
  const { restoreStore } = await loadRestore();
  const { chainId, dataDir } = config;
  return restoreStore(
    { from, path: storePathOf(dataDir), chainId },
    { logger: silentLogger, clock: systemClock, ...dependencies },
  );
}

/**
 * Begins the store of a daemon with a snapshot, unless there is a store. Says every LOG_EVERY_MS how far it is. Expected
 * errors: as `restoreStoreOf`. Aborted by the signal, it leaves no store.
 */
export async function seedStore(
  config: DaemonConfig,
  from: string,
  { clock, logger, signal }: { readonly clock: Clock; readonly logger: Logger; readonly signal: AbortSignal },
): Promise<'ready' | 'stopped'> {
  if (config.store === undefined && (await holdsData(storePathOf(config.dataDir)))) {
    logger.info({ from }, 'there is a store already: the snapshot is not needed');
    return 'ready';
  }
  logger.info({ from }, 'restoring a snapshot; the daemon serves once it has been verified');
  let toldAtMs = clock.monotonic();
  const onProgress = (progress: RestoreProgress): void => {
    if (clock.monotonic() - toldAtMs < LOG_EVERY_MS) return;
    toldAtMs = clock.monotonic();
    logger.info({ progress: restoreInWords(progress) }, 'restoring a snapshot');
  };
  try {
    const { heights, transactions } = await restoreStoreOf(config, from, { signal, onProgress });
    logger.info({ heights, transactions }, 'the snapshot is restored, every id recomputed');
    return 'ready';
  } catch (error) {
    if (!wasAborted(error, signal)) throw error;
    return 'stopped';
  }
}

export function restoreInWords(progress: RestoreProgress): string {
  switch (progress.phase) {
    case 'download': {
      const { bytes, ofBytes } = progress;
      return `received ${inMib(bytes)}${ofBytes === undefined ? '' : ` of ${inMib(ofBytes)}`}`;
    }
    case 'files':
      return 'verifying the files themselves';
    case 'blocks':
      return `verifying height ${formatCount(progress.height)} of ${formatCount(progress.to)}`;
    case 'pointers':
      return `verifying pointers: ${formatCount(progress.pointers)} so far`;
  }
}

function inMib(bytes: number): string {
  return `${formatCount(bytes / MIB)} MiB`;
}
