import { abortReason } from '../../../runtime/index.js';
import { outcomeOf, unchanged } from '../../integrity/repair.js';
import type { RepairOptions, RepairReport } from '../../integrity/repair.js';
import type { VerifyReport } from '../../verify/DamageList.js';
import { repairedBook } from '../../records/book/repairedBook.js';
import { without } from '../../records/heightRanges.js';
import type { HeightRanges } from '../../records/heightRanges.js';
import { StorageError } from '../../StorageError.js';
import { databasePlace } from '../connection/databasePlace.js';
import { PostgresDatabase } from '../connection/PostgresDatabase.js';
import { Fence } from '../writing/Fence.js';
import { readBook } from '../tables/bookRows.js';
import { repairBook, repairRows } from '../writing/changeRows.js';
import { verifyPostgres } from './verifyPostgres.js';
import type { PostgresVerifyDependencies } from './verifyPostgres.js';

/** Heights whose rows one transaction rebuilds. */
const HEIGHTS_AT_ONCE = 10;

export interface PostgresRepairOptions extends Pick<RepairOptions, 'chainId' | 'apply'> {
  readonly url: string;
  /** Plan ids up to this one are in use: their jobs may still exist. Default: none. */
  readonly lastPlan?: number;
  /** As `PostgresIndexStoreOptions.patienceMs`. */
  readonly patienceMs?: number;
}

/**
 * Like `repairStore`, for a database: rows of a sound block are rebuilt from its bytes, heights whose block is damaged or
 * lost become planned holes, and nothing else is touched. With `apply` it replaces the process that leads; when another
 * process replaces it in turn, its further writes are refused. Processes that fill in history or serve readers may run;
 * the worker of a range with a damaged height loses the range, which continues from there. An interrupted repair can be
 * run again.
 *
 * Expected errors: those of `verifyPostgres`; `StorageError` (`locked`: another process leads now; `corrupt`).
 */
export async function repairPostgres(
  { url, chainId, apply, lastPlan = 0, patienceMs }: PostgresRepairOptions,
  dependencies: PostgresVerifyDependencies,
): Promise<RepairReport> {
  const { signal } = dependencies;
  const database = new PostgresDatabase(databasePlace(url), dependencies, { patienceMs });
  try {
    // From here on no other process changes the live range.
    const fence = apply
      ? await database.transaction((session) => Fence.take(database, session, { table: 'store' }))
      : undefined;
    const verify = (): Promise<VerifyReport> => verifyPostgres({ url, chainId }, dependencies);
    const found = await verify();
    const report = unchanged(found);
    if (found.damageCount === 0) return report;
    if (fence === undefined) {
      const before = await readBook(database);
      return { ...report, ...outcomeOf(repairedBook(before, found.lostHeights)) };
    }
    await repairAll(fence, without(found.damagedHeights, found.lostHeights), signal);
    const repaired = await fence.write((session) => repairBook(session, found.lostHeights, lastPlan));
    const [left] = (await verify()).damages;
    if (left !== undefined) {
      throw new StorageError(
        'corrupt',
        `The store at ${database.place} is still damaged after the repair: ${left.message}. Check the disks of the ` +
          'database, run "verify" again, and restore the database from a copy if damage remains.',
      );
    }
    return { ...report, ...outcomeOf(repaired), applied: true };
  } finally {
    await database.close();
  }
}

/** Rebuilds the rows of sound blocks, and damaged scripts. */
async function repairAll(
  fence: Fence,
  damaged: HeightRanges,
  signal: AbortSignal | undefined,
): Promise<void> {
  await fence.write((session) => repairRows(session, undefined));
  for (const { from, to } of damaged) {
    for (let height = from; height <= to; height += HEIGHTS_AT_ONCE) {
      if (signal?.aborted === true) throw abortReason(signal);
      const range = { from: height, to: Math.min(to, height + HEIGHTS_AT_ONCE - 1) };
      await fence.write((session) => repairRows(session, range));
    }
  }
}
