export { runDaemon } from './runDaemon.js';
export { mayReadRecord, readDaemonRecord } from './lifecycle/daemonRecord.js';
export type { DaemonRecord, OwnAccess } from './lifecycle/daemonRecord.js';
export { readFingerprint } from './guard/certificate.js';
export { daemonRequest, type PlainResponse } from './lifecycle/daemonRequest.js';
export { readFirstToken } from './guard/tokens.js';
export { placeOfStore } from './line/startHeight.js';
export { STOP_TIMEOUT_MS } from './lifecycle/openLifecycle.js';
export type { BackfillCommand, BackfillOutcome } from './line/history/plans.js';
export type { ControlAnswer } from './lifecycle/openControlSocket.js';
export { forgetAccountsOf, repairStoreOf, rewindStore, verifyStoreOf } from './stores/upkeep.js';
export { backupStoreOf, migrateStores, restoreInWords, restoreStoreOf } from './stores/copies.js';
export { checkDatabaseUrls, killWorkersOf, workersOf } from './stores/databases.js';
export { exitCodeOf, exitCodes, programVersion } from '../runtime/index.js';
export type { Verdict } from './doctor/verdicts.js';
export type { Port } from './threads/calls.js';

/** For a store that no daemon has open: loaded, with LevelDB, only if no daemon answers. */
export const loadStores = () => import('./stores/index.js');

/** The checks of `doctor`: loaded for that alone. */
export const loadDoctor = () => import('./doctor/examine.js');

/** The daemon's own check of its files: loaded, with its libraries, by `config check` alone. */
export const loadFileChecks = () => import('./runDaemon.js');
