export { runDaemon } from './runDaemon.js';
export type { DaemonPorts, Host } from './runDaemon.js';
export { daemonRuns, readDaemonRecord } from './lifecycle/daemonRecord.js';
export type { DaemonRecord } from './lifecycle/daemonRecord.js';
export { readFingerprint } from './guard/certificate.js';
export { daemonRequest } from './guard/daemonRequest.js';
export type { PlainResponse } from './guard/daemonRequest.js';
export type { OwnAccess } from './guard/SecretFiles.js';
export { readFirstToken } from './guard/tokens.js';
export { announcedRuns } from './lifecycle/runRegistry.js';
export { openUpstream, runIndexing } from './line/runIndexing.js';
export type { IndexingDependencies } from './line/runIndexing.js';
export { placeOfStore } from './line/startHeight.js';
export type { Backfill } from './line/history/Backfill.js';
export { vouchForRootAbove } from './line/rootAbove.js';
export type { IndexingLine, IndexingLineParts } from './line/indexingLine.js';
export { Lifecycle, STOP_TIMEOUT_MS } from './lifecycle/Lifecycle.js';
export type { BackfillCommand, BackfillOutcome } from './line/history/backfillCommand.js';
export { ServiceNotifier } from './lifecycle/ServiceNotifier.js';
export { serviceManagerOf } from './lifecycle/serviceManager.js';
export { ControlSocket } from './lifecycle/ControlSocket.js';
export type { ControlAnswer } from './lifecycle/ControlSocket.js';
export {
  backfillOf,
  commandStore,
  forgetAccountsOf,
  migrateStores,
  openLevelStore,
  openStoreReadOnly,
  plannedHeightOf,
  repairStoreOf,
  rewindStore,
  verifyStoreOf,
} from './stores.js';
export { followIndex } from './followIndex.js';
export type { FollowIndexDependencies } from './followIndex.js';
export { backupStoreOf, restoreInWords, restoreStoreOf } from './copies.js';
export type { RestoreProgress } from './copies.js';
export { checkDatabaseUrls, killWorkersOf, workersOf } from './databases.js';
export type { OpenStore, RewindReport } from './stores.js';
export { exitCodeOf, exitCodes, programVersion } from '../runtime/index.js';
export { HistoryPace } from './line/history/HistoryPace.js';
export { BackfillWatch } from './health/watches/BackfillWatch.js';
export type { Verdict } from './doctor/verdicts.js';
export { Diagnosis } from './health/causes/Diagnosis.js';
export type { DiagnosisOptions, Symptoms } from './health/causes/Diagnosis.js';
export { LeaderWatch } from './health/watches/LeaderWatch.js';
export { DiskWatch } from './health/watches/DiskWatch.js';
export { heldUpBy } from './health/causes/heldUp.js';
export type { HeldUpFacts } from './health/causes/heldUp.js';
export { DOWN_AFTER_MS } from './threads/ReaderLife.js';
export { HUNG_AFTER_MS, ReaderThread } from './threads/ReaderThread.js';
export type { ReaderSources } from './threads/ReaderLife.js';
export type { FromReader, Port, ReaderOptions, ToReader } from './threads/messages.js';
export { serveReaders } from './threads/serveReaders.js';
export type { ReaderHandle, StartReader } from './threads/startWorker.js';

/** What `doctor` looks at: loaded for that alone. */
export const loadDoctor = () => import('./doctor/examine.js');
