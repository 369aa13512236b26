import { parentPort, workerData } from 'node:worker_threads';
import { campaign } from './campaign.js';
import type { Assignment } from './run.js';
import { WorkerState } from './StuckWatch.js';
import { targets } from './targets.js';

const { assignment } = workerData as { readonly assignment: Assignment };
const { target: name, cells, ...options } = assignment;
const target = targets.find((each) => each.name === name);
if (target === undefined) throw new Error(`there is no target ${name}`);

const state = new WorkerState(cells);
const report = await campaign(target, {
  ...options,
  onInput: (index) => state.feeding(index),
  onLastInput: () => state.ending(),
});
parentPort?.postMessage(report);
