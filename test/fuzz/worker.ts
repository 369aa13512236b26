import { parentPort, workerData } from 'node:worker_threads';
import { withCleanup } from '../support/cleanup.js';
import { campaign, Phase } from './campaign.js';
import type { Assignment } from './run.js';
import { targets } from './targets.js';

const { assignment } = workerData as { readonly assignment: Assignment };
const { target: name, cells, ...options } = assignment;
const target = targets.find((each) => each.name === name);
if (target === undefined) throw new Error(`there is no target ${name}`);

const report = await withCleanup(() =>
  campaign(target, {
    ...options,
    onInput: (index) => {
      Atomics.store(cells, 1, index);
      Atomics.store(cells, 0, Phase.feeding);
    },
    onLastInput: () => void Atomics.store(cells, 0, Phase.ending),
  }),
);
parentPort?.postMessage(report);
