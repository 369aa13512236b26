import type { DaemonConfig } from '../../config/index.js';
import { silentLogger, type Logger } from '../../observability/index.js';
import { loadQueue, type SharedQueue, type WorkerState } from '../../ranges/index.js';
import { OperatorError, systemClock, systemRandom } from '../../runtime/index.js';
import type { Clock, ExitReason } from '../../runtime/index.js';
import { loadPostgres, StorageError, type IndexStore } from '../../storage/index.js';

/** A command's dependencies of a store: it logs nothing, and reports the outcome itself. */
export const forCommand = { clock: systemClock, logger: silentLogger };

/** How long a start, or a command, waits for a database that refuses or does not answer. */
export const DATABASE_WAIT_MS = 30_000;

/**
 * Opens the queue that the processes of one database share, and registers this process; `undefined` without a database. Open the
 * store first. Expected errors: those of `SharedQueue.open`.
 */
export async function openQueueToWork(
  { roles, store: url }: DaemonConfig,
  dependencies: Parameters<typeof SharedQueue.open>[1] & { readonly signal: AbortSignal },
): Promise<SharedQueue | undefined> {
  if (url === undefined) return undefined;
  const { signal } = dependencies;
  const queues = await loadQueue();
  return queues.SharedQueue.open({ url, roles, waitMs: DATABASE_WAIT_MS, signal }, dependencies);
}

/**
 * The replica of the store that readers use, if one is configured. Waits for a replica that was just created. Expected errors:
 * as `PostgresIndexStore.open`.
 */
export async function openReplicaToRead(
  { api, chainId, index }: DaemonConfig,
  dependencies: { readonly clock: Clock; readonly logger: Logger; readonly signal: AbortSignal },
): Promise<IndexStore | undefined> {
  const { store: url } = api;
  if (url === undefined) return undefined;
  const { PostgresIndexStore } = await loadPostgres();
  const first = { create: false, waitMs: DATABASE_WAIT_MS, signal: dependencies.signal };
  return PostgresIndexStore.open({ url, chainId, accounts: index.accounts, ...first }, dependencies);
}

/** Checks the URLs of databases, by key or flag, without connecting. Expected errors: OperatorError `exitOf` the key. */
export async function checkDatabaseUrls(
  urls: Readonly<Record<string, string | undefined>>,
  exitOf: (key: string) => ExitReason,
): Promise<void> {
  for (const [key, url] of Object.entries(urls)) {
    if (url === undefined) continue;
    const { databasePlace } = await loadPostgres();
    databasePlace(url, key, exitOf(key));
  }
}

export async function closing<Opened extends { close(): Promise<void> }, T>(
  opened: Opened,
  use: (opened: Opened) => Promise<T> | T,
): Promise<T> {
  try {
    return await use(opened);
  } finally {
    await opened.close();
  }
}

/** The queue of a database, for a command. Expected errors: OperatorError (there is no database; it does not answer). */
export async function onQueue<T>(
  { store: url }: DaemonConfig,
  use: (queue: SharedQueue) => Promise<T>,
): Promise<T> {
  if (url === undefined) {
    throw new OperatorError(
      'usage',
      'Workers are processes that share a database, but this index is in a data directory. Name the database with --store.',
    );
  }
  const { SharedQueue } = await loadQueue();
  const options = { url, roles: [], patienceMs: DATABASE_WAIT_MS };
  return closing(await SharedQueue.open(options, { ...forCommand, random: systemRandom }), use);
}

/** The processes that share the database. Expected errors: as `openStoreReadOnly`. */
export async function workersOf(config: DaemonConfig): Promise<readonly WorkerState[]> {
  return onQueue(config, (queue) => queue.workers());
}

/**
 * Asks the worker whose id begins with `which`, or all of them, to end. Returns how many were asked. Expected errors: as
 * `openStoreReadOnly`; OperatorError `usage` (no such worker, or several).
 */
export async function killWorkersOf(config: DaemonConfig, which: string): Promise<number> {
  return onQueue(config, async (queue) => {
    const alive = (await queue.workers()).filter(({ isAlive }) => isAlive);
    const chosen = which === 'all' ? alive : alive.filter(({ id }) => id.startsWith(which));
    if (which !== 'all' && chosen.length !== 1) {
      throw new OperatorError(
        'usage',
        `${chosen.length === 0 ? 'No' : 'More than one'} live worker has an id that begins with ${which}. "workers" lists them.`,
      );
    }
    return queue.kill(chosen.map(({ id }) => id));
  });
}

/** Takes the lead of a database that a command writes to; a LevelDB store needs none. Expected errors: StorageError (`locked`). */
export async function takeLead(config: DaemonConfig, store: IndexStore): Promise<void> {
  const { shared } = store;
  if (config.store === undefined || shared === undefined) return;
  await whileNobodyLeads(config, () => shared.lead());
}

/** Runs a command that writes to a database, unless a process leads there. Expected errors: StorageError (`locked`). */
export async function whileNobodyLeads<T>(
  config: DaemonConfig,
  use: (queue: SharedQueue) => Promise<T>,
): Promise<T> {
  return onQueue(config, async (queue) => {
    const leader = (await queue.workers()).find(({ isAlive, leads }) => isAlive && leads);
    if (leader !== undefined) {
      throw new StorageError(
        'locked',
        `The store is being indexed: ${leader.id} on ${leader.host} leads. Stop all processes with the role live first.`,
      );
    }
    return use(queue);
  });
}
