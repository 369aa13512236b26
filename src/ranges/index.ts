export { FAILURES_BEFORE_DISPUTE, LocalWorkSource } from './local/LocalWorkSource.js';
export type { ServedHeights } from './local/LocalWorkSource.js';
export { migrateStore } from './migration/migrateStore.js';
export type { MigrationProgress, MigrationReport } from './migration/migrateStore.js';
export { common, countHeights, cutNext, lacking } from './planner.js';
export { RangeRunner } from './RangeRunner.js';
export type { RangeLine, RangeOutcome, RunningRange } from './RangeRunner.js';
export type {
  BackfillState,
  FillOrder,
  PlanState,
  RangeJob,
  RangePhase,
  RangeState,
  WantedPlan,
  WorkSource,
} from './ports.js';
