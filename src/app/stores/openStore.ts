import { access, constants, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { DaemonConfig } from '../../config/index.js';
import type { Logger } from '../../observability/index.js';
import { inShell, OperatorError, sleep, systemClock } from '../../runtime/index.js';
import { LevelIndexStore, loadPostgres, lockNamed } from '../../storage/index.js';
import { makeDirectory, StorageError } from '../../storage/index.js';
import type { IndexStore, StorageErrorKind } from '../../storage/index.js';
import type { DaemonParts } from '../health/diagnose.js';
import { runningDaemon, storePathOf } from '../lifecycle/daemonRecord.js';
import { checkStartOfFilledStore } from '../line/startHeight.js';
import { DATABASE_WAIT_MS, forCommand } from './databases.js';

/** How a store is opened: like `LevelIndexStore.open`, with its expected errors. */
export type OpenStore = (...how: Parameters<typeof LevelIndexStore.open>) => Promise<IndexStore>;

export const openLevelStore: OpenStore = (options, dependencies) =>
  LevelIndexStore.open(options, dependencies);

/** How long a command that reads a store waits for another one to finish, and how often it checks. */
const LOCK_WAIT_MS = 5_000;
const LOCK_LOOK_MS = 200;
/** Permission bits of everyone but the owner. */
const OTHERS = 0o077;

/**
 * Opens the store that a daemon indexes into, and closes it at the end. Expected errors: OperatorError (locked, damaged, another
 * chain, a start that does not fit).
 */
export async function openStoreToIndex(
  config: DaemonConfig,
  parts: Pick<DaemonParts, 'clock' | 'descriptors' | 'lifecycle' | 'logger' | 'readers'> & {
    readonly openStore: OpenStore | undefined;
  },
): Promise<IndexStore> {
  const { clock, descriptors, lifecycle, logger, openStore = openLevelStore, readers } = parts;
  const { chainId, dataDir, index, store: url } = config;
  const options = { chainId, accounts: index.accounts };
  let store: IndexStore;
  if (url === undefined) {
    const level: Parameters<OpenStore>[0] = {
      ...options,
      path: storePathOf(dataDir),
      isShared: true,
      tuning: { maxOpenFiles: descriptors.shares().maxOpenFiles },
      descriptors: {
        waits: descriptors.storeWaits,
        alone: (action) => (readers === undefined ? action() : readers.without(action)),
      },
    };
    store = await openStore(level, { clock, logger });
  } else {
    lifecycle.onClose('data directory', await takeDirectory(dataDir));
    const { PostgresIndexStore } = await loadPostgres();
    const first = { waitMs: DATABASE_WAIT_MS, signal: lifecycle.signal };
    store = await PostgresIndexStore.open({ ...options, ...first, url }, { clock, logger });
  }
  // The reader thread reads the store, so it ends first.
  lifecycle.onClose('store', async () => {
    await readers?.close();
    await store.close();
  });
  if (url === undefined) {
    await store.takeBackDamage();
    await warnOfOpenDirectory(dataDir, { logger });
  }
  checkStartOfFilledStore(config, store);
  return store;
}

/**
 * Warns when users other than the owner may enter the data directory or the store in it; the daemon creates both for the
 * owner only. Changes nothing: the wider permissions may be intended.
 */
async function warnOfOpenDirectory(dataDir: string, { logger }: { readonly logger: Logger }): Promise<void> {
  // Windows has no such bits: every directory looks open to all.
  if (process.platform === 'win32') return;
  for (const path of [dataDir, storePathOf(dataDir)]) {
    // If it was removed meanwhile, the disk watch reports that.
    const { mode = 0 } = (await stat(path).catch(() => undefined)) ?? {};
    if ((mode & OTHERS) === 0) continue;
    const fields = { path, mode: (mode & 0o777).toString(8), advice: `chmod 700 ${inShell(path)}` };
    logger.warn(fields, 'the data directory is open to other users of this machine');
    return;
  }
}

/**
 * Creates a data directory that no other daemon uses, and returns a function that releases it. With the index in a database,
 * no store lock keeps others out, but record and socket need a directory of their own. Expected errors: OperatorError `storage`.
 */
async function takeDirectory(dataDir: string): Promise<() => void> {
  const running = await runningDaemon(dataDir);
  await makeDirectory(dataDir);
  const { dev, ino } = await stat(dataDir, { bigint: true });
  // A daemon that starts at the same time has no record yet.
  const leave = running === undefined ? await lockNamed(`daemon-${dev}-${ino}`) : undefined;
  if (leave !== undefined) return leave;
  const which = running === undefined ? '' : ` (process ${running.pid})`;
  throw new OperatorError(
    'storage',
    `The data directory ${dataDir} is in use by another daemon${which}. Give every process on this machine a --data-dir of its own.`,
  );
}

/**
 * Opens the store of a configuration for a command, in a directory or a database. Expected errors: OperatorError (no store there,
 * locked by a running daemon, or by another command for longer than LOCK_WAIT_MS, one that must be copied first, another chain,
 * a newer schema, a database that does not answer).
 */
export function openForCommand(
  config: DaemonConfig,
  how: { readonly create?: boolean; readonly isReadOnly?: boolean; readonly openStore?: OpenStore } = {},
): Promise<IndexStore> {
  const { chainId, dataDir, store: url } = config;
  const { openStore = openLevelStore, ...options } = { create: false, ...how, chainId };
  return whenFree(config, { isReadOnly: how.isReadOnly === true }, async () => {
    if (url === undefined) return openStore({ ...options, path: storePathOf(dataDir) }, forCommand);
    const { PostgresIndexStore } = await loadPostgres();
    return PostgresIndexStore.open({ ...options, url, patienceMs: DATABASE_WAIT_MS }, forCommand);
  });
}

export function openStoreReadOnly(config: DaemonConfig): Promise<IndexStore> {
  return openForCommand(config, { isReadOnly: true });
}

/** Why LevelDB, which writes to every store it opens, cannot open one that can be read. */
const UNWRITABLE: Readonly<Partial<Record<StorageErrorKind, string>>> = {
  read_only: 'the file system is mounted read-only',
  permission: 'this user may not write there',
  disk_full: 'the disk is full',
};

/**
 * Retries while another command has the store. Does not wait for a daemon, which keeps its lock. If a command only reads, and the
 * store can be read but not opened, the error says how to copy it first.
 */
export async function whenFree<T>(
  config: DaemonConfig,
  { isReadOnly }: { readonly isReadOnly: boolean },
  use: () => Promise<T>,
): Promise<T> {
  const untilMs = systemClock.monotonic() + LOCK_WAIT_MS;
  for (;;) {
    try {
      return await use();
    } catch (error) {
      if (!(error instanceof StorageError) || config.store !== undefined) throw error;
      if (error.kind !== 'locked') throw isReadOnly ? await withAdvice(error, config) : error;
      if (systemClock.monotonic() >= untilMs || (await runningDaemon(config.dataDir))) throw error;
    }
    await sleep(systemClock, LOCK_LOOK_MS);
  }
}

async function withAdvice(error: StorageError, { dataDir, network }: DaemonConfig): Promise<StorageError> {
  const why = UNWRITABLE[error.kind];
  if (why === undefined || !(await isReadable(storePathOf(dataDir)))) return error;
  const copy = join(tmpdir(), 'flow-collection-indexer-copy');
  return new StorageError(
    error.kind,
    `The store in ${dataDir} can be read, but not opened: even a command that only reads must let LevelDB write there, and ${why}. ` +
      `Copy it first: "flow-collection-indexer backup --network ${network} --data-dir ${inShell(resolve(dataDir))} --to ${inShell(copy)}" ` +
      `(or to any place with room), and name the copy in its stead.`,
    { cause: error },
  );
}

async function isReadable(path: string): Promise<boolean> {
  const looks = await Promise.allSettled([
    access(path, constants.R_OK | constants.X_OK),
    access(join(path, 'CURRENT'), constants.R_OK),
  ]);
  return looks.every(({ status }) => status === 'fulfilled');
}

/** The configuration with its store at `place`: a data directory, or the URL of a database. */
export function storeAt(config: DaemonConfig, place: string): DaemonConfig {
  const isDatabase = /^postgres(?:ql)?:/.test(place);
  return isDatabase ? { ...config, store: place } : { ...config, dataDir: resolve(place), store: undefined };
}

/** Expected errors: OperatorError (`usage`) when a database holds the index. */
export function refuseDatabase({ store }: DaemonConfig, why: string): void {
  if (store === undefined) return;
  throw new OperatorError(
    'usage',
    `This is for a store in a data directory, but the index is in a database (store): ${why}.`,
  );
}
