export { runDaemon } from './daemon.js';
export type { DaemonPorts, Host } from './daemon.js';
export { readDaemonRecord } from './daemonRecord.js';
export type { DaemonRecord } from './daemonRecord.js';
export { announcedRuns } from './runRegistry.js';
export { openUpstream, runIndexing } from './indexing.js';
export type { IndexingDependencies } from './indexing.js';
export type { IndexingLine, IndexingLineParts } from './indexingLine.js';
export { Lifecycle, STOP_TIMEOUT_MS } from './lifecycle.js';
export {
  forgetAccountsOf,
  openLevelStore,
  openStoreReadOnly,
  repairStoreOf,
  rewindStore,
  verifyStoreOf,
} from './store.js';
export type { OpenStore, RewindReport } from './store.js';
export { exitCodeOf, exitCodes, programVersion } from '../runtime/index.js';
export { Diagnosis } from './Diagnosis.js';
export type { DiagnosisOptions, Symptoms } from './Diagnosis.js';
export { DiskWatch } from './DiskWatch.js';
export { heldUpBy } from './heldUp.js';
export type { HeldUpFacts } from './heldUp.js';
