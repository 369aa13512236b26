import type { DaemonConfig } from '../../config/index.js';
import { migrateStore } from '../../ranges/index.js';
import type { MigrationProgress, MigrationReport } from '../../ranges/index.js';
import { OperatorError } from '../../runtime/index.js';
import { checkDatabaseUrls, takeLead } from './databases.js';
import { openStoreReadOnly, openStoreWithoutDaemon, storeAt } from './openStore.js';

/**
 * Copies the covered ranges and the plans of one store to another, and creates that if there is none. Expected errors: as
 * `openStoreReadOnly` and `migrateStore`; OperatorError `usage` when both are the same store.
 */
export async function migrateStores(
  config: DaemonConfig,
  { from, to }: { readonly from: string; readonly to: string },
  dependencies: {
    readonly signal: AbortSignal;
    readonly onProgress: (progress: MigrationProgress) => void;
  },
): Promise<MigrationReport> {
  const [sourceConfig, targetConfig] = [storeAt(config, from), storeAt(config, to)];
  if (sourceConfig.store === targetConfig.store && sourceConfig.dataDir === targetConfig.dataDir)
    throw new OperatorError('usage', 'The source and the target are the same store.');
  await checkDatabaseUrls({ '--from': sourceConfig.store, '--to': targetConfig.store }, () => 'usage');
  const source = await openStoreReadOnly(sourceConfig);
  try {
    const target = await openStoreWithoutDaemon(targetConfig, { isReadOnly: false, create: true });
    try {
      await takeLead(targetConfig, target);
      return await migrateStore({ source, target, ...dependencies });
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}
