export { AccountIndexBuilder } from './accounts/AccountIndexBuilder.js';
export type { AccountIndexProgress } from './accounts/AccountIndexBuilder.js';
export type { Database, Entry, WriteBatch } from './Database.js';
export type {
  AccountCoverage,
  AccountIndex,
  AccountPage,
  AccountReader,
  AccountTransaction,
  BlockEntry,
  BlockHead,
  CollectionPlace,
  CommitBatch,
  IndexReader,
  IndexStore,
  SporkRecord,
  StoredBlock,
  StoredCollection,
  StoredTransaction,
  StoreMeta,
  TransactionPlace,
} from './IndexStore.js';
export { GatheredReads } from './GatheredReads.js';
export { defaultTuning, openLevelDatabase } from './LevelDatabase.js';
export type { LevelTuning, OpenDatabase } from './LevelDatabase.js';
export { LevelIndexStore } from './LevelIndexStore.js';
export type { LevelIndexStoreOptions } from './LevelIndexStore.js';
export { repairStore } from './repair.js';
export type { RepairReport } from './repair.js';
export { ACCOUNTS_SCHEMA_VERSION, SCHEMA_VERSION } from './schema.js';
export type { KeyRange } from './schema.js';
export { StorageError, storageErrorFrom } from './StorageError.js';
export { TableScrubber } from './TableScrubber.js';
export type { VerifyReport } from './verify/report.js';
export { verifyStore } from './verify/verifyStore.js';
export type { VerifyDependencies, VerifyOptions, VerifyProgress } from './verify/verifyStore.js';
