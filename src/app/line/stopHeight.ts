import type { DaemonConfig } from '../../config/index.js';
import type { Logger } from '../../observability/index.js';
import type { AccountIndexBuilder, IndexStore } from '../../storage/index.js';
import type { Lifecycle } from '../lifecycle/Lifecycle.js';

/** True when everything up to the stop height is indexed: nothing is left to request. */
export function hasReachedStop({ stopHeight }: DaemonConfig, store: IndexStore): boolean {
  return stopHeight !== undefined && store.meta() !== undefined && store.latestIndexedHeight() >= stopHeight;
}

/** Stops the daemon at its stop height, once the account index (if on) is complete and all plans are filled. */
export function stopWhenFinished(
  config: DaemonConfig,
  {
    accountBuilder,
    backfill,
    lifecycle,
    logger,
    store,
  }: {
    readonly accountBuilder: AccountIndexBuilder;
    readonly backfill: { hasWork(): boolean };
    readonly lifecycle: Lifecycle;
    readonly logger: Logger;
    readonly store: IndexStore;
  },
): void {
  if (!hasReachedStop(config, store) || accountBuilder.progress().state === 'building') return;
  if (backfill.hasWork()) return;
  if (!lifecycle.signal.aborted) logger.info({ height: config.stopHeight }, 'stop height reached');
  lifecycle.stop();
}
