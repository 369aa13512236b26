export { FAILURES_BEFORE_DISPUTE, LocalWorkSource } from './local/LocalWorkSource.js';
export type { ServedHeights } from './local/LocalWorkSource.js';
export { SoleLeadership } from './local/SoleLeadership.js';
export { common, countHeights, cutNext, lacking } from './planner.js';
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
  Term,
  WantedPlan,
  WorkSource,
} from './ports.js';
