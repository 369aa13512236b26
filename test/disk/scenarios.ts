import { faultScenarios } from './faults.js';
import { fileScenarios } from './files.js';
import type { Scenarios } from './scenario.js';

export const diskScenarios: Scenarios = { ...fileScenarios, ...faultScenarios };
