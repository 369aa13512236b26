import type { Logger } from '../../../observability/index.js';
import type { Database } from '../../records/Database.js';
import { openLevelDatabase } from './LevelDatabase.js';
import type { OpenDatabase } from './LevelDatabase.js';
import { defaultTuning } from './openLevel.js';
import type { DescriptorWait, LevelTuning } from './openLevel.js';
import { droppedAtOpen, holdsData, prepareDirectory } from './storeDirectory.js';

export interface OpenDirectoryOptions {
  /** The store's own directory; created, readable by its owner only, when it does not exist. */
  readonly path: string;
  /** Default true. False: a path without a store is refused (`missing`), for commands that only read. */
  readonly create?: boolean;
  /** Default false. True: readers on other threads may open it beside this one (`LevelReplica`); they close it first. */
  readonly isShared?: boolean;
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
 * Opens the database in a directory, and warns of what LevelDB drops from a damaged log. Expected errors:
 * `StorageError` (locked by another process, no permission, damaged, …).
 */
export async function openDirectory(
  { path, create = true, descriptors, isShared = false, tuning }: OpenDirectoryOptions,
  { logger, openDatabase = openLevelDatabase }: OpenDirectoryDependencies,
): Promise<Database> {
  await prepareDirectory(path, create);
  const isNew = !(await holdsData(path));
  const database = await openDatabase(
    path,
    { ...defaultTuning, ...tuning },
    // Without its CURRENT file a store would be taken for a new one, and its tables be deleted.
    { create: create && isNew, descriptors, isShared },
  );
  try {
    const details = await droppedAtOpen(path);
    if (details.length > 0)
      logger.warn(
        { path, details },
        'the write-ahead log was damaged: what could not be read has been dropped',
      );
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}
