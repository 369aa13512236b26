// The process behind `startBenchNode`: makes all of its history, then prints its address and serves until it is killed.
import { startDevnet } from '../../../src/devnet/index.js';
import type { DevnetOptions } from '../../../src/devnet/index.js';
import { SPARE_HEIGHTS } from './node.js';

const CACHE_BYTES = 4 * 1024 ** 3;

const { heights, ...options } = JSON.parse(process.argv[2] ?? '{}') as DevnetOptions & { heights: number };
const root = options.rootHeight ?? 0;
const end = root + heights + SPARE_HEIGHTS;
const devnet = await startDevnet({ startHead: end, endHeight: end, cacheBytes: CACHE_BYTES, ...options });
for (let height = root; height <= end; height += 1) devnet.node.chain.executionData(height);
process.stdout.write(`${devnet.address}\n`);
process.once('disconnect', () => process.exit(0));
