import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { copyFiles } from '../files/copyFiles.js';
import { withDatabase } from '../leveldb/directory/LevelDatabase.js';
import type { BackfillPlan } from '../port/RangeBook.js';
import type { HeightRange, StoreMeta } from '../port/stored.js';
import { readOne, single } from '../records/book/bookRecords.js';
import type { Database } from '../records/Database.js';
import { hasCode, storageErrorFrom, unlessDamaged } from '../StorageError.js';

/** What the records of a store say of it. */
export interface StoreSurvey {
  /** `undefined`: nothing was ever stored here, or the record is damaged. */
  readonly meta: StoreMeta | undefined;
  /** The live range last; empty while nothing is indexed. */
  readonly coverage: readonly HeightRange[];
  readonly plans: readonly BackfillPlan[];
  /** Size of all tables. */
  readonly bytes: number;
}

/**
 * Looks at a store that no process uses, and changes nothing, not even what LevelDB would tidy up at an open: it is a copy
 * beside it that is opened, which shares its tables. `undefined`: there is no store. Expected errors: `StorageError`.
 */
export async function surveyStore(path: string): Promise<StoreSurvey | undefined> {
  try {
    await stat(join(path, 'CURRENT'));
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw storageErrorFrom(error, 'read the files of the store', path);
  }
  const copy = `${path}.survey-${process.pid}`;
  try {
    const { linkedBytes } = await copyFiles(path, copy, { linksOnly: true });
    return { ...(await withDatabase(copy, readSurvey)), bytes: linkedBytes };
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}

async function readSurvey(database: Database): Promise<Pick<StoreSurvey, 'meta' | 'coverage' | 'plans'>> {
  const meta = await unlessDamaged(() => readOne(database, single.meta));
  const latest = await unlessDamaged(() => readOne(database, single.progress));
  const published = (await unlessDamaged(() => readOne(database, single.published))) ?? [];
  const isFilled = meta !== undefined && latest !== undefined && latest >= meta.firstHeight;
  return {
    meta,
    plans: (await unlessDamaged(() => readOne(database, single.plans))) ?? [],
    coverage: isFilled ? [...published, { from: meta.firstHeight, to: latest }] : published,
  };
}
