export { localWorkSource } from './local/localWorkSource.js';
export { migrateStore } from './migration/migrateStore.js';
export type { MigrationProgress, MigrationReport } from './migration/migrateStore.js';
export { common, countHeights } from './planner.js';
export { rangeRunner } from './rangeRunner.js';
export type { RangeLine, RangeOutcome, RunningRange } from './rangeRunner.js';
export { countWorkers, soleLeadership } from './ports.js';
export type { BackfillState, FillOrder, Leadership, RangeJob, RangePhase, RangeState } from './ports.js';
export type { ServedHeights, Term, WorkerState, WorkSource } from './ports.js';
export type { SharedQueue } from './pgboss/SharedQueue.js';

/** Loads the queue of many machines, and its packages, on demand. */
export const loadQueue = () => {
  // As in `loadPostgres`: one of the packages loads `pg`.
  delete process.env['NODE_PG_FORCE_NATIVE'];
  return import('./pgboss/SharedQueue.js');
};
