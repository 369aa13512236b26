/**
 * What a read at the tip costs the processors, for several builds of the daemon or flags of Node.js. Build first: it runs
 * `dist/main.js`. On a busy machine trust processor time before reads per second.
 *
 *     npx tsx test/bench/readCost.ts --program dist/main.js,../other/dist/main.js
 *     npx tsx test/bench/readCost.ts --over grpc --node=--heap-growing-percent=0,--heap-growing-percent=400
 *
 *     --program LIST    the daemon's main.js          [dist/main.js]
 *     --node LIST       flags of Node.js              [none]
 *     --over LIST       http, grpc                    [both]
 *     --kind LIST       transaction, collection       [both]
 *     --rounds N        medians of so many            [5]
 *
 * The variants take turns within a round. Reads are of random ids, sixteen at once.
 */
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { startLiveDaemon } from './lib/liveDaemon.js';
import { startBenchNode } from './lib/node.js';
import { scratch } from './lib/processes.js';
import { startReadClient } from './lib/readClient.js';
import type { ReadKind } from './lib/readClient.js';
import { digits, formatTable } from './lib/report.js';
import { interleave, median, ratioOf } from './lib/statistics.js';
import { processMs } from './lib/threadTime.js';
import { scriptOptions } from '../support/scriptOptions.js';

const HEIGHTS = 2_000;
const READS = 10_000;
const CONCURRENCY = 16;

const { values: args } = scriptOptions({
  options: {
    program: { type: 'string', default: 'dist/main.js' },
    node: { type: 'string', default: '' },
    over: { type: 'string', default: 'http,grpc' },
    kind: { type: 'string', default: 'transaction,collection' },
    rounds: { type: 'string', default: '5' },
  },
});

interface Cost {
  readonly readsPerSecond: number;
  readonly cpuUs: number;
}

const chain = { profile: 'dense', seed: 1, heights: HEIGHTS } as const;
const node = await startBenchNode(chain);
const client = await startReadClient(chain);
const subjects: Record<string, () => Promise<Cost>> = {};
for (const program of args.program.split(',')) {
  for (const flag of args.node.split(',')) {
    const daemon = await startLiveDaemon({
      ...{ node: node.address, mode: 'edi-only', dataDir: mkdtempSync(join(scratch, 'data-')), program },
      nodeFlags: flag === '' ? [] : [flag],
    });
    await daemon.reaches(HEIGHTS);
    for (const how of args.over.split(',') as ('http' | 'grpc')[]) {
      for (const kind of args.kind.split(',') as ReadKind[]) {
        const port = how === 'http' ? daemon.apiPort : (daemon.grpcPort ?? 0);
        const variant = `${program} ${flag}`.trim();
        subjects[`${how} ${kind}\0${variant}`] = async () => {
          const beforeMs = processMs(daemon.process.pid);
          const { readsPerSecond } = await client.run({
            ...{ how, kind, port, concurrency: CONCURRENCY, reads: READS },
          });
          return { readsPerSecond, cpuUs: ((processMs(daemon.process.pid) - beforeMs) * 1_000) / READS };
        };
      }
    }
  }
}
for (const warmUp of Object.values(subjects)) await warmUp();
const results = await interleave(subjects, { rounds: Number(args.rounds) });

const firstOf = new Map<string, readonly number[]>();
const rows = Object.entries(results).map(([name, runs]) => {
  const [read = '', variant = ''] = name.split('\0');
  const cpuUs = runs.map((run) => run.cpuUs);
  const first = firstOf.get(read) ?? cpuUs;
  firstOf.set(read, first);
  const readsPerSecond = median(runs.map((run) => run.readsPerSecond));
  return [read, variant, digits(readsPerSecond), digits(median(cpuUs)), ratioOf(cpuUs, first).toFixed(2)];
});
process.stdout.write(
  formatTable({
    title: `Reads of ${HEIGHTS} heights of 5 × 10, ${CONCURRENCY} at once, medians of ${args.rounds} rounds`,
    columns: ['read', 'variant', 'reads/s', 'processor µs per read, all threads', '÷ first'],
    rows: rows.sort(([left = ''], [right = '']) => left.localeCompare(right)),
  }),
);
process.exit(0);
