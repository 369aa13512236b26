import type { IndexStore } from './port/IndexStore.js';
import type { PostgresIndexStore } from './postgres/PostgresIndexStore.js';

export { accountIndexBuilder } from './accounts/accountIndexBuilder.js';
export type { Database, Entry } from './records/Database.js';
export { ParentLinkError, RangeTakenError } from './port/ParentLinkError.js';
export { commitQueue } from './commitQueue.js';
export type { CommitQueue, CommitQueueOptions } from './commitQueue.js';
export { MAX_OPEN_RANGES, MAX_PLANS, MAX_RANGE_HEIGHTS } from './port/RangeBook.js';
export type { AccountPage, AccountTransaction } from './port/AccountIndex.js';
export type { BackfillPlan, OpenRange } from './port/RangeBook.js';
export type { BlockEntry, CommitBatch, RangeStore } from './port/RangeStore.js';
export type {
  BlockHead,
  CommitteeEvidence,
  HeightRange,
  ItemKind,
  Place,
  SporkRecord,
  StoredBlock,
  StoredItem,
  StoreMeta,
  WholeBlock,
} from './port/stored.js';
export type { FoundDamage, IndexReader, IndexStore, ShownIndex, WriteRoom } from './port/IndexStore.js';
export { LevelIndexStore } from './leveldb/LevelIndexStore.js';
export { openLevelReplica } from './leveldb/reading/levelReader.js';
export { holdsData, logBytes, makeDirectory } from './leveldb/directory/storeDirectory.js';
export { backupStore } from './integrity/backup.js';
export type { BackupReport } from './integrity/backup.js';
export { verifiedBlock } from './records/blocks/assembleBlock.js';
export { joined, overlap, rangesInWords, slicesOf, upTo, within, without } from './records/heightRanges.js';
export { repairStore } from './integrity/repair.js';
export type { RepairReport } from './integrity/repair.js';
export { SCHEMA_VERSION } from './records/schema.js';
export {
  DatabaseFault,
  hasCode,
  isCorruption,
  RangeLostError,
  StorageError,
  unlessDamaged,
} from './StorageError.js';
export type { StorageErrorKind } from './StorageError.js';
export { surveyStore } from './integrity/surveyStore.js';
export type { DatabaseSurvey } from './postgres/reading/surveyDatabase.js';
export { lockHolder, lockNamed } from './lockHolder.js';
export type { RangeReport, VerifyReport } from './verify/DamageList.js';
export { verifyStore } from './integrity/verify/verifyStore.js';
export type { VerifyDependencies } from './integrity/verify/verifyStore.js';
export type { VerifyOptions } from './verify/checkHeights.js';
export type { RangeFacts } from './postgres/tables/bookRows.js';
export type { Beginning, PostgresDatabase } from './postgres/connection/PostgresDatabase.js';
export type { Session } from './postgres/connection/Session.js';

export type SharedRangeBook = PostgresIndexStore['ranges'];

/** `undefined` for a store that only one process fills. */
export function sharedRangesOf({ ranges }: Pick<IndexStore, 'ranges'>): SharedRangeBook | undefined {
  return 'transact' in ranges ? (ranges as SharedRangeBook) : undefined;
}

/** The store on PostgreSQL, whose packages are loaded here and not before. */
export const loadPostgres = () => {
  // If set, `pg` would load a package that is not installed, and whose connections could not be watched.
  delete process.env['NODE_PG_FORCE_NATIVE'];
  return import('./postgres/postgres.js');
};

/** Restoring a snapshot, whose package is loaded here and not before. */
export const loadRestore = () => import('./integrity/restore.js');
export type { RestoreDependencies } from './integrity/restore.js';
export { syncDirectory } from './files/synced.js';
