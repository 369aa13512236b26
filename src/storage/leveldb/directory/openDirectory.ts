import type { Logger } from '../../../observability/index.js';
import type { Database } from '../../records/Database.js';
import { openLevelDatabase } from './LevelDatabase.js';
import type { OpenDatabase } from './LevelDatabase.js';
import { defaultTuning } from './openLevel.js';
import type { DescriptorWait, LevelTuning } from './openLevel.js';
import { droppedAtOpen, holdsData, prepareDirectory, refuseDamagedFiles } from './storeDirectory.js';

export interface OpenDirectoryOptions {
  /** The store's own directory; created, readable by its owner only, when it does not exist. */
  readonly path: string;
  /** Default true. False: a path without a store is refused (`missing`), for commands that only read. */
  readonly create?: boolean;
  /** Default false. True: readers on other threads may open it beside this one (`LevelReplica`); they close it first. */
  readonly isShared?: boolean;
  /**
   * Default false. True: it opens in spite of damaged blocks in tables, for the daemon, which verifies and heals the heights
   * in them.
   */
  readonly healsTables?: boolean;
  /** Overrides of the measured defaults. */
  readonly tuning?: Partial<LevelTuning>;
  /** See `OpenOptions`. */
  readonly descriptors?: DescriptorWait | undefined;
}

export interface OpenDirectoryDependencies {
  readonly logger: Logger;
  /** How the database is opened. Default: LevelDB. */
  readonly openDatabase?: OpenDatabase;
}

/**
 * Opens the database in a directory, unless its files are damaged, and warns of a torn end of its log. Expected errors:
 * `StorageError` (locked by another process, no permission, damaged, …).
 */
export async function openDirectory(
  { path, create = true, descriptors, healsTables = false, isShared = false, tuning }: OpenDirectoryOptions,
  { logger, openDatabase = openLevelDatabase }: OpenDirectoryDependencies,
): Promise<Database> {
  await prepareDirectory(path, create);
  if (await holdsData(path)) await refuseDamagedFiles(path, { healsTables });
  const database = await openDatabase(
    path,
    { ...defaultTuning, ...tuning },
    { create, descriptors, isShared },
  );
  try {
    const details = await droppedAtOpen(path);
    if (details.length > 0)
      logger.warn({ path, details }, 'the end of the write-ahead log was torn and has been dropped');
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}
