import type { DaemonConfig } from '../config/index.js';
import type { Logger } from '../observability/index.js';
import { hasSoundHttp2 } from '../runtime/index.js';
import type { IndexStore } from '../storage/index.js';
import type { Descriptors } from './lifecycle/Descriptors.js';
import { removeDaemonRecord } from './lifecycle/daemonRecord.js';
import { refuseUnwritable, refuseUsedDirectory, warnOfOpenDirectory } from './lifecycle/dataDirectory.js';
import type { IndexingParts } from './line/runIndexing.js';
import { checkStartOfFilledStore } from './line/startHeight.js';
import { openLevelStore, openStoreToIndex } from './stores/openStore.js';
import type { OpenStore } from './stores/openStore.js';
import type { ReaderThread } from './threads/ReaderThread.js';

/** The dependencies of everything that the daemon starts. */
export type Common = Pick<IndexingParts, 'lifecycle' | 'clock' | 'metrics' | 'logger'>;

/**
 * Opens the store for writing. Expected errors: OperatorError (locked, damaged, another chain, a start that does not
 * fit).
 */
export async function openOwnStore(
  config: DaemonConfig,
  {
    clock,
    descriptors,
    lifecycle,
    logger,
    openStore = openLevelStore,
    readers,
  }: Common & {
    readonly descriptors: Descriptors;
    readonly openStore: OpenStore | undefined;
    readonly readers: ReaderThread | undefined;
  },
): Promise<IndexStore> {
  const { maxOpenFiles } = descriptors.shares;
  if (config.store !== undefined) await refuseUsedDirectory(config.dataDir);
  const store = await openStoreToIndex(config, {
    openStore,
    maxOpenFiles,
    clock,
    logger,
    descriptors: {
      waits: (why) => descriptors.storeWaits(why),
      alone: (action) => (readers === undefined ? action() : readers.without(action)),
    },
  });
  // The reader thread reads the store, so it ends first.
  lifecycle.onClose('store', async () => {
    await readers?.close();
    await store.close();
  });
  await refuseUnwritable(config.dataDir);
  // The directory is ours now: a record in it is left from a killed daemon.
  removeDaemonRecord(config.dataDir);
  if (config.store === undefined) await warnOfOpenDirectory(config.dataDir, { logger });
  if (readers !== undefined && config.api.grpcPort !== 'off' && !hasSoundHttp2(process.version))
    warnOfNode(logger);
  checkStartOfFilledStore(config, store);
  return store;
}

function warnOfNode(logger: Logger): void {
  logger.warn(
    { node: process.version, advice: 'run Node.js 24, or allow only trusted callers at the gRPC port' },
    'callers of the gRPC port can end the process: this version of Node.js has a bug',
  );
}
