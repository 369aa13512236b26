/**
 * What reads cost a daemon that catches up by requests: 1,000 reads per second against none, in turns. Build first: it runs
 * `dist/main.js`. Needs Linux, whose kernel counts the processor time of each thread and the bytes written.
 *
 *     npx tsx test/bench/readWhile.ts --rounds 2
 *
 *     --heights N    [6000]
 *     --rounds N     medians of so many  [2]
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { startLiveDaemon } from './lib/liveDaemon.js';
import { startBenchNode } from './lib/node.js';
import { scratch } from './lib/processes.js';
import { startReadClient } from './lib/readClient.js';
import { digits, formatTable } from './lib/report.js';
import { interleave, median } from './lib/statistics.js';
import { processMs } from './lib/threadTime.js';
import { scriptOptions } from '../support/scriptOptions.js';

const OFFERED_PER_SECOND = 1_000;
const CONNECTIONS = 64;

const { values: args } = scriptOptions({
  options: { heights: { type: 'string', default: '6000' }, rounds: { type: 'string', default: '2' } },
});
const heights = Number(args.heights);
const node = await startBenchNode({ profile: 'dense', seed: 1, heights });
const client = await startReadClient({ profile: 'dense', seed: 1, heights });

interface Cost {
  readonly heightsPerSecond: number;
  readonly mainMs: number;
  readonly otherMs: number;
  readonly writtenKb: number;
}

/** Per height. */
async function catchUp({ isRead }: { readonly isRead: boolean }): Promise<Cost> {
  const dataDir = mkdtempSync(join(scratch, 'data-'));
  const daemon = await startLiveDaemon({ node: node.address, mode: 'requester-only', dataDir });
  const startedAtMs = performance.now();
  const reading = isRead
    ? client.run({
        how: 'offer',
        port: daemon.apiPort,
        perSecond: OFFERED_PER_SECOND,
        connections: CONNECTIONS,
      })
    : undefined;
  await daemon.reaches(heights);
  const seconds = (performance.now() - startedAtMs) / 1_000;
  const mainMs = daemon.mainThreadMs();
  const allMs = processMs(daemon.process.pid);
  const io = readFileSync(`/proc/${daemon.process.pid}/io`, 'utf8');
  const written = Number(/^write_bytes: (\d+)$/m.exec(io)?.[1]);
  client.stop();
  await reading;
  await daemon.stop();
  rmSync(dataDir, { recursive: true });
  return {
    heightsPerSecond: heights / seconds,
    mainMs: mainMs / heights,
    otherMs: (allMs - mainMs) / heights,
    writtenKb: written / heights / 1_000,
  };
}

const runs = await interleave(
  { alone: () => catchUp({ isRead: false }), 'while read': () => catchUp({ isRead: true }) },
  { rounds: Number(args.rounds) },
);
process.stdout.write(
  formatTable({
    title: `${heights} heights of 5 × 10 by requests, medians of ${args.rounds} rounds; processor time from the start of the process`,
    columns: ['', 'heights/s', 'main thread ms/height', 'other threads ms/height', 'written kB/height'],
    rows: Object.entries(runs).map(([name, costs]) => [
      name,
      digits(median(costs.map((cost) => cost.heightsPerSecond))),
      digits(median(costs.map((cost) => cost.mainMs))),
      digits(median(costs.map((cost) => cost.otherMs))),
      digits(median(costs.map((cost) => cost.writtenKb))),
    ]),
  }),
);
process.exit(0);
