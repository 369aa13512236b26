import { faultScenarios } from './faults.js';
import { fileScenarios } from './files.js';
import type { Scenarios } from './scenario.js';

/** Everything that may befall the disk. */
export const diskScenarios: Scenarios = { ...fileScenarios, ...faultScenarios };
