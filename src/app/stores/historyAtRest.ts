import type { SporkTable } from '../../access/index.js';
import type { BackfillStatus, PlannedHeight } from '../../api/index.js';
import { MAX_HEIGHT, type DaemonConfig } from '../../config/index.js';
import type { SharedQueue, WorkSource } from '../../ranges/index.js';
import { systemRandom } from '../../runtime/index.js';
import type { IndexStore } from '../../storage/index.js';
import { documentOf, plannedAt } from '../health/watches/watchBackfill.js';
import { readShippedSporks } from '../lifecycle/knownBlocks.js';
import { obeyBackfill, workSourceOf } from '../line/history/plans.js';
import type { BackfillCommand, BackfillOutcome } from '../line/history/plans.js';
import { closing, forCommand, onQueue } from './databases.js';
import { openForCommand } from './openStore.js';

/**
 * Changes the plans of a store without a daemon; the next daemon uses them. Expected errors: those
 * of `openStoreReadOnly`; OperatorError `usage`.
 */
export function commandStore(config: DaemonConfig, command: BackfillCommand): Promise<BackfillOutcome> {
  return onStore(config, { isReadOnly: false }, (source, known) => obeyBackfill(command, source, known));
}

/** The plans of a store without a daemon. Expected errors: as `openStoreReadOnly`. */
export function backfillOf(config: DaemonConfig): Promise<BackfillStatus> {
  return onStore(config, { isReadOnly: true }, (source) => documentOf(source.status()));
}

/** The plan to fill in a height of a store without a daemon. */
export function plannedHeightOf(store: IndexStore, height: number): PlannedHeight | undefined {
  return plannedAt(height, sourceAtRest({ store, sporks: [] }).status());
}

interface StoreAtRest {
  readonly store: IndexStore;
  readonly sporks: SporkTable;
  readonly queue?: SharedQueue | undefined;
}

async function onStore<T>(
  config: DaemonConfig,
  { isReadOnly }: { readonly isReadOnly: boolean },
  use: (source: WorkSource, known: StoreAtRest) => Promise<T> | T,
): Promise<T> {
  const sporks = await readShippedSporks(config.network);
  const isShared = config.store !== undefined;
  // In a database, the queue changes plans while other processes fill them in.
  const opening = openForCommand(config, { isReadOnly: isReadOnly || isShared });
  return closing(await opening, async (store) => {
    if (!isShared) return use(sourceAtRest({ store, sporks }), { store, sporks });
    return onQueue(config, async (queue) => {
      const source = sourceAtRest({ store, sporks, queue });
      if ('refresh' in source) await source.refresh();
      return use(source, { store, sporks });
    });
  });
}

/** Without nodes, assume that every height is served. A shared queue cuts ranges at the roots when they are planned. */
function sourceAtRest({ sporks, ...parts }: StoreAtRest) {
  const borders = sporks.map(({ rootHeight }) => rootHeight);
  const chain = { borders: () => borders, served: () => [{ from: 0, to: MAX_HEIGHT }] };
  return workSourceOf({ ...forCommand, random: systemRandom, ...parts }, chain);
}
