import { outcomeOf, unchanged, type RepairOptions, type RepairReport } from '../../integrity/repair.js';
import type { VerifyReport } from '../../verify/DamageList.js';
import { repairedBook, type RepairedBook } from '../../records/book/repairedBook.js';
import { rangesAt, slicesOf, without, type HeightRanges } from '../../records/heightRanges.js';
import { StorageError } from '../../StorageError.js';
import { databasePlace } from '../connection/databasePlace.js';
import { PostgresDatabase } from '../connection/PostgresDatabase.js';
import { deleteAbove } from '../writing/changeRows.js';
import { takeFence, type Fence } from '../writing/takeFence.js';
import type { HeightRange } from '../../port/stored.js';
import { assembleEntry } from '../../records/blocks/assembleBlock.js';
import { isDamagedEvidence } from '../../records/blocks/committeeEvidence.js';
import { parseHeightKey, Prefix } from '../../records/schema.js';
import type { Session, WriteSession } from '../connection/Session.js';
import { BlockRows } from '../tables/BlockRows.js';
import { deleteBlocks, readBook, readStored, readStrays, writeBook } from '../tables/bookRows.js';
import { readEvidence } from '../tables/prepareDatabase.js';
import { Scripts } from '../tables/Scripts.js';
import { verifyPostgres, type PostgresVerifyDependencies } from './verifyPostgres.js';

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
    const take = () => database.transaction((session) => takeFence(database, session));
    const fence = apply ? await database.begin(take, {}) : undefined;
    const verify = (): Promise<VerifyReport> => verifyPostgres({ url, chainId, patienceMs }, dependencies);
    const found = await verify();
    const report = unchanged(found);
    if (found.damageCount === 0) return report;
    if (fence === undefined) {
      const before = await readBook(database);
      return { ...report, ...outcomeOf(repairedBook(before, found.lostHeights)) };
    }
    await repairAll(fence, found, signal);
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

/** Removes damaged evidence, which nodes are asked for again, and damaged scripts; rebuilds the rows of sound blocks. */
async function repairAll(
  fence: Fence,
  { damagedHeights, lostHeights }: VerifyReport,
  signal: AbortSignal | undefined,
): Promise<void> {
  await fence.write(async (session) => {
    const bad: number[] = [];
    for (const entry of await readEvidence(session)) {
      const height = parseHeightKey(Prefix.evidence, entry[0]);
      if (height !== undefined && (await isDamagedEvidence(entry))) bad.push(height);
    }
    await session.query({ text: 'DELETE FROM flow_store.evidence WHERE height = ANY ($1)', values: [bad] });
    for (const height of await removeDamagedScripts(session, lostHeights))
      await repairRows(session, { from: height, to: height });
  });
  for (const some of slicesOf(without(damagedHeights, lostHeights), HEIGHTS_AT_ONCE)) {
    signal?.throwIfAborted();
    await fence.write((session) => repairRows(session, some));
  }
}

/** Rebuilds every row of sound blocks from their bytes. Expected errors: those of the session; `StorageError` (`corrupt`). */
async function repairRows(session: WriteSession, range: HeightRange): Promise<void> {
  const rows = new BlockRows(new Scripts());
  for await (const { height, body, record } of readStored(session, range)) {
    if (record === undefined) continue;
    rows.add(assembleEntry(height, record, body));
    await deleteBlocks(session, height, height);
  }
  for (const step of rows.steps()) session.later(step);
}

/** Removes damaged scripts; returns for each the height of a transaction that has it, and is not lost. */
async function removeDamagedScripts(session: Session, lost: HeightRanges): Promise<number[]> {
  const { rows } = await session.query<{ height: number | null }>({
    text: `WITH wrong AS (DELETE FROM flow_store.script WHERE sha256(body) <> hash RETURNING hash)
      SELECT DISTINCT (SELECT min(height) FROM flow_store.transaction
        WHERE script_hash = hash AND NOT height <@ ANY ($1::int8range[])) AS height FROM wrong`,
    values: [lost.map(({ from, to }) => `[${from},${to}]`)],
  });
  return rows.flatMap(({ height }) => height ?? []);
}

/** Deletes lost heights and blocks outside all ranges; the others become the book. */
async function repairBook(session: Session, lost: HeightRanges, lastPlan: number): Promise<RepairedBook> {
  const before = await readBook(session);
  const repaired = repairedBook(before, lost, lastPlan);
  const { latestIndexedHeight } = repaired.book;
  for (const { from, to } of lost) await deleteBlocks(session, from, to);
  if (latestIndexedHeight < before.latestIndexedHeight) await deleteAbove(session, latestIndexedHeight);
  await writeBook(session, before, repaired.book);
  for (const { from, to } of rangesAt(await readStrays(session))) await deleteBlocks(session, from, to);
  return repaired;
}
