export { AccountIndexBuilder } from './accounts/AccountIndexBuilder.js';
export type { AccountIndexProgress } from './accounts/AccountIndexBuilder.js';
export type { Database, Entry, WriteBatch } from './records/Database.js';
export { BorderError } from './BorderError.js';
export { RangeLostError } from './RangeLostError.js';
export { RangeTakenError } from './RangeTakenError.js';
export { MAX_OPEN_RANGES, MAX_PLANS, MAX_RANGE_HEIGHTS } from './IndexStore.js';
export type {
  AccountCoverage,
  AccountIndex,
  AccountPage,
  AccountReader,
  AccountTransaction,
  BackfillPlan,
  BlockEntry,
  BlockHead,
  CollectionPlace,
  CommitBatch,
  HeightRange,
  IndexReader,
  IndexStore,
  OpenRange,
  RangeBook,
  RangeChange,
  RangeStore,
  SharedStore,
  ShownIndex,
  SporkRecord,
  StoredBlock,
  StoredCollection,
  StoredTransaction,
  WholeBlock,
  StoreMeta,
  TransactionPlace,
  WriteRoom,
} from './IndexStore.js';
export { ReadBatcher } from './leveldb/ReadBatcher.js';
export { defaultTuning, openLevelDatabase } from './leveldb/LevelDatabase.js';
export type { LevelTuning, OpenDatabase, OpenOptions } from './leveldb/LevelDatabase.js';
export { LevelIndexStore } from './leveldb/LevelIndexStore.js';
export type { LevelIndexStoreOptions } from './leveldb/LevelIndexStore.js';
export { LevelReplica } from './leveldb/LevelReplica.js';
export { holdsData } from './leveldb/storeDirectory.js';
export { backupStore } from './integrity/backup.js';
export type { BackupReport } from './integrity/backup.js';
export { verifiedBlock } from './records/assembleBlock.js';
export { joined, missingIn, overlap, rangesInWords, without } from './records/heightRanges.js';
export { repairStore } from './integrity/repair.js';
export type { RepairReport } from './integrity/repair.js';
export { RANGES_SCHEMA_VERSION, SCHEMA_VERSION } from './records/schema.js';
export type { KeyRange } from './records/schema.js';
export { StorageError, storageErrorFrom } from './StorageError.js';
export { surveyStore } from './integrity/surveyStore.js';
export type { StoreSurvey } from './integrity/surveyStore.js';
export type { DatabaseStore, DatabaseSurvey } from './postgres/reading/surveyDatabase.js';
export { lockHolder } from './lockHolder.js';
export { TableScrubber } from './integrity/TableScrubber.js';
export type { RangeReport, VerifyReport } from './integrity/verify/DamageList.js';
export { verifyStore } from './integrity/verify/verifyStore.js';
export type { VerifyDependencies, VerifyOptions, VerifyProgress } from './integrity/verify/verifyStore.js';
export { sharedRangesOf } from './postgres/ranges/SharedRangeBook.js';
export type { BookTransaction, RangeFacts, SharedRangeBook } from './postgres/ranges/SharedRangeBook.js';
export type { PostgresDatabase } from './postgres/connection/PostgresDatabase.js';
export type { Session } from './postgres/connection/Session.js';
export type { PostgresIndexStoreOptions } from './postgres/PostgresIndexStore.js';

/** The store on PostgreSQL, whose packages are loaded here and not before. */
export const loadPostgres = () => import('./postgres/postgres.js');

/** Restoring a snapshot, whose package is loaded here and not before. */
export const loadRestore = () => import('./integrity/restore.js');
export type { RestoreDependencies } from './integrity/restore.js';
export { syncDirectory } from './files/syncDirectory.js';
