export { LocalWorkSource } from './local/LocalWorkSource.js';
export { common, countHeights, cutNext, lacking } from './planner.js';
export { FAILURES_BEFORE_DISPUTE } from './plans.js';
export { RangeRunner } from './RangeRunner.js';
export type { RangeLine, RangeOutcome, RunningRange } from './RangeRunner.js';
export type {
  BackfillState,
  FillOrder,
  Leader,
  Leadership,
  PlanState,
  RangeJob,
  RangePhase,
  RangeState,
  ServedHeights,
  Term,
  WantedPlan,
  WorkSource,
} from './ports.js';
