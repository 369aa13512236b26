import type { DaemonConfig } from '../../config/index.js';
import { silentLogger } from '../../observability/index.js';
import { followStore, loadQueue } from '../../ranges/index.js';
import type { FollowedSource, Leadership } from '../../ranges/index.js';
import { AbortError, childOf, sleep, systemClock, systemRandom, wasAborted } from '../../runtime/index.js';
import type { Timer } from '../../runtime/index.js';
import { loadPostgres, StorageError } from '../../storage/index.js';
import type { HeightRange, IndexStore } from '../../storage/index.js';
import { DATABASE_WAIT_MS } from './databases.js';
import { openStoreWithoutDaemon, storeAt } from './openStore.js';

/** The role of this process in the list of workers. */
const ROLE = 'follow';
/** How often to check which process leads, while this one does not. */
const LOOK_MS = 1_000;
/** How long the last write may take at the end. */
const LAST_WRITE_MS = 5_000;

export type FollowIndexDependencies = Pick<
  Parameters<typeof followStore>[0],
  'signal' | 'onProgress' | 'onInStep' | 'onHeldUp' | 'onRewind'
>;

/**
 * Keeps a store in step with a running daemon until the signal aborts, and creates it if there is none. Of several processes that
 * follow into one database, one writes and the others wait. Returns what the store covers at the end. Expected errors: as `followStore` and
 * `openStoreReadOnly`; those of opening the queue of a database.
 */
export async function followIndex(
  config: DaemonConfig,
  { to, source }: { readonly to: string; readonly source: FollowedSource },
  dependencies: FollowIndexDependencies,
): Promise<readonly HeightRange[]> {
  const { signal } = dependencies;
  const ours = storeAt(config, to);
  const target = await openTarget(ours);
  let timer: Timer | undefined;
  const giveUp = (): void => {
    timer = systemClock.setTimer(LAST_WRITE_MS, () => void target.close());
  };
  signal.addEventListener('abort', giveUp, { once: true });
  const follow = (lost: AbortSignal): Promise<void> =>
    followStore({
      ...{ clock: systemClock, random: systemRandom, source, target },
      ...dependencies,
      signal: lost,
    });
  try {
    if (ours.store === undefined) await follow(signal);
    else await whileLeading(ours.store, target, dependencies, follow);
  } catch (error) {
    // A write was abandoned at the end: the next run finds out whether it was committed.
    if (!signal.aborted || !(error instanceof StorageError)) throw error;
  } finally {
    signal.removeEventListener('abort', giveUp);
    timer?.cancel();
    await target.close();
  }
  return target.coverage();
}

async function openTarget(config: DaemonConfig): Promise<IndexStore> {
  const { chainId, store: url } = config;
  if (url === undefined) return openStoreWithoutDaemon(config, { isReadOnly: false, create: true });
  const { PostgresIndexStore } = await loadPostgres();
  return PostgresIndexStore.open(
    { url, chainId, waitMs: DATABASE_WAIT_MS },
    { logger: silentLogger, clock: systemClock },
  );
}

/** Calls `follow` whenever this process leads the writers of a database. Expected errors: those of `follow`. */
async function whileLeading(
  url: string,
  target: IndexStore,
  { signal, onHeldUp }: FollowIndexDependencies,
  follow: (lost: AbortSignal) => Promise<void>,
): Promise<void> {
  const { SharedQueue } = await loadQueue();
  const ending = childOf(signal);
  const queue = await SharedQueue.open(
    { url, roles: [ROLE], waitMs: DATABASE_WAIT_MS },
    {
      ...{ clock: systemClock, random: systemRandom, logger: silentLogger },
      // The command "backfill kill".
      onKill: () => ending.abort(new AbortError('the operator wants this worker to end')),
    },
  );
  try {
    const leadership = queue.leadership();
    while (leadership !== undefined && !ending.signal.aborted) {
      const looking = childOf(ending.signal);
      const reporting = reportLeader(leadership, looking.signal, onHeldUp);
      const term = await leadership.lead(ending.signal);
      looking.abort();
      await reporting;
      if (term === undefined) return;
      try {
        const replaced = await target.shared?.lead();
        const signals = [ending.signal, term.lost, ...(replaced === undefined ? [] : [replaced])];
        await follow(AbortSignal.any(signals));
      } catch (error) {
        const isReplaced = error instanceof StorageError && error.kind === 'locked';
        if (!isReplaced && !wasAborted(error, term.lost)) throw error;
      } finally {
        await target.shared?.follow();
        await term.release();
      }
    }
  } finally {
    ending.abort();
    await queue.close();
  }
}

async function reportLeader(
  leadership: Leadership,
  signal: AbortSignal,
  onHeldUp: FollowIndexDependencies['onHeldUp'],
): Promise<void> {
  for (;;) {
    const isOver = await sleep(systemClock, LOOK_MS, signal).then(
      () => false,
      () => true,
    );
    if (isOver) return;
    const leader = leadership.leader();
    if (leader === undefined) continue;
    onHeldUp(
      `Another process writes to the target: ${leader.worker} on ${leader.host}. This one waits, and takes over when that ` +
        'ends ("workers" lists them).',
    );
  }
}
