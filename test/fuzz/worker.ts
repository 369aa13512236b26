import { parentPort, workerData } from 'node:worker_threads';
import { campaign } from './campaign.js';
import type { Assignment } from './run.js';
import { targets } from './targets.js';

const { assignment } = workerData as { readonly assignment: Assignment };
const { target: name, current, ...options } = assignment;
const target = targets.find((each) => each.name === name);
if (target === undefined) throw new Error(`there is no target ${name}`);

const report = await campaign(target, {
  ...options,
  onInput: (index) => void Atomics.store(current, 0, index),
});
parentPort?.postMessage(report);
