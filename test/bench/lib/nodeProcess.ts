// The process behind `startBenchNode`: makes all of its history, then prints its address and serves until it is killed.
import { startDevnet } from '../../../src/devnet/index.js';
import { SPARE_HEIGHTS } from './node.js';
import type { BenchNodeOptions } from './node.js';

const CACHE_BYTES = 4 * 1024 ** 3;

const { heights, heightsPerSecond, ...options } = JSON.parse(process.argv[2] ?? '{}') as BenchNodeOptions;
const root = options.rootHeight ?? 0;
const end = root + heights + SPARE_HEIGHTS;
const start = heightsPerSecond === undefined ? end : root;
// What a paced node has it has with execution data: nothing is to wait for but the pace.
const pace =
  heightsPerSecond === undefined
    ? {}
    : { blockIntervalMs: 1_000 / heightsPerSecond, paused: true, sealedLag: 0 };
const devnet = await startDevnet({
  ...{ startHead: start, endHeight: end, cacheBytes: CACHE_BYTES },
  ...pace,
  ...options,
});
const { chain, head } = devnet.node;
for (let height = root; height <= end; height += 1) chain.executionData(height);
process.on('message', (message) => {
  if (message !== 'pace') return;
  head.pause();
  head.set(start);
  head.resume();
});
process.once('disconnect', () => process.exit(0));
process.stdout.write(`${devnet.address}\n`);
