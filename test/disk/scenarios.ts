import { faultScenarios } from './faults.js';
import { fileScenarios } from './files.js';
import type { Scenario } from './scenario.js';

/** Everything that may befall the disk. */
export const diskScenarios: readonly Scenario[] = [...fileScenarios, ...faultScenarios];
