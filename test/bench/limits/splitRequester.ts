/** `idealRequester.ts` with everything but the store on a thread of its own: blocks come from there verified. */
import { Worker } from 'node:worker_threads';
import type { BlockEntry } from '../../../src/storage/index.js';
import { GroupWriter } from '../lib/GroupWriter.js';
import { limitOptions, LimitWatch } from '../lib/limits.js';

const options = limitOptions();
const watch = new LimitWatch();
/** A worker does not inherit the loader of TypeScript: it begins by loading it. */
const BOOT = `
  import('tsx/esm/api').then(({ register }) => { register(); return import(process.argv[2]); });
`;
const program = new URL('idealRequester.ts', import.meta.url).href;
const fetching = new Worker(BOOT, { eval: true, argv: [program], workerData: options, execArgv: [] });
const writer = await GroupWriter.open(options.path, (height) => {
  if (height === options.heights) watch.finish(options.heights);
  fetching.postMessage(height);
});
fetching.on('error', (error) => {
  throw error;
});
fetching.on('message', (turn: BlockEntry[]) => {
  watch.start();
  for (const entry of turn) writer.add(entry);
});
