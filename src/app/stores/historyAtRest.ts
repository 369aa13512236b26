import { ok as assert } from 'node:assert/strict';
import type { BackfillStatus, PlannedHeight } from '../../api/index.js';
import { MAX_HEIGHT, type DaemonConfig } from '../../config/index.js';
import { localWorkSource } from '../../ranges/index.js';
import type { ServedHeights, SharedQueue, WorkSource } from '../../ranges/index.js';
import { systemRandom } from '../../runtime/index.js';
import { sharedRangesOf, type IndexStore } from '../../storage/index.js';
import { documentOf, plannedAt } from '../health/watches/watchBackfill.js';
import { readShippedSporks } from '../lifecycle/knownBlocks.js';
import { heightsOf, obeyBackfill } from '../line/history/plans.js';
import type { BackfillCommand, BackfillOutcome } from '../line/history/plans.js';
import { closing, forCommand, onQueue } from './databases.js';
import { openForCommand } from './openStore.js';

/**
 * Changes the plans of a store without a daemon; the next daemon uses them. Expected errors: those
 * of `openStoreReadOnly`; OperatorError `usage`.
 */
export async function commandStore(config: DaemonConfig, command: BackfillCommand): Promise<BackfillOutcome> {
  const sporks = await readShippedSporks(config.network);
  return onStore(config, { isReadOnly: false }, (store, source) =>
    obeyBackfill(command, source, (heights, order) =>
      source.plan({ ...heightsOf(heights, store, { sporks }), order }),
    ),
  );
}

/** The plans of a store without a daemon. Expected errors: as `openStoreReadOnly`. */
export function backfillOf(config: DaemonConfig): Promise<BackfillStatus> {
  return onStore(config, { isReadOnly: true }, (_store, source) => documentOf(source.status()));
}

/** The plan to fill in a height of a store without a daemon. */
export function plannedHeightOf(store: IndexStore, height: number): PlannedHeight | undefined {
  return plannedAt(height, localSource(store).status());
}

async function onStore<T>(
  config: DaemonConfig,
  { isReadOnly }: { readonly isReadOnly: boolean },
  use: (store: IndexStore, source: WorkSource) => Promise<T> | T,
): Promise<T> {
  const isShared = config.store !== undefined;
  // In a database, the queue changes plans while other processes fill them in.
  const opening = openForCommand(config, { isReadOnly: isReadOnly || isShared });
  return closing(await opening, (store) =>
    isShared
      ? onQueue(config, async (queue) => use(store, await sharedSource(config, store, queue)))
      : use(store, localSource(store)),
  );
}

/** A shared queue cuts ranges when they are planned, so the spork roots must be known. */
async function sharedSource(
  { network }: DaemonConfig,
  store: IndexStore,
  queue: SharedQueue,
): Promise<WorkSource> {
  const book = sharedRangesOf(store);
  assert(book !== undefined, 'a database is shared');
  const sporks = await readShippedSporks(network);
  const source = queue.source({}, { book, chain: servedWith(sporks.map(({ rootHeight }) => rootHeight)) });
  await source.refresh();
  return source;
}

function localSource(store: IndexStore): WorkSource {
  return localWorkSource({}, { ...forCommand, store, random: systemRandom, chain: servedWith([]) });
}

/** Without nodes, assume that every height is served. */
function servedWith(borders: readonly number[]): ServedHeights {
  return { borders: () => borders, served: () => [{ from: 0, to: MAX_HEIGHT }] };
}
