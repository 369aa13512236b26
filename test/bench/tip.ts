/**
 * How long it takes at the tip from receiving a block's last collection until it can be read. Build first: it runs
 * `dist/main.js`.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { ChainGenerator } from '../../src/devnet/index.js';
import type { ProfileName } from '../../src/devnet/index.js';
import type { Mode } from './lib/daemonRun.js';
import { followFresh } from './lib/freshBlocks.js';
import type { FreshTimes } from './lib/freshBlocks.js';
import { bucketsOf, quantile, since } from './lib/histogram.js';
import { HttpConnection } from './lib/HttpConnection.js';
import { startLiveDaemon } from './lib/liveDaemon.js';
import { scratch } from './lib/processes.js';
import { bench, digits } from './lib/report.js';
import type { Figure } from './lib/report.js';
import { percentile } from './lib/statistics.js';
import { startTipNode } from './lib/tipNode.js';
import { scriptOptions } from '../support/scriptOptions.js';

const HISTORY = 50;
/** Heights until everybody has warmed up. */
const WARM_UP_HEIGHTS = 30;
const SEALED_LAG = 4;
const RECEIVE_TO_INDEXED = 'collection_receive_to_indexed_seconds';

interface Scene {
  readonly mode: Mode;
  readonly profile: ProfileName;
  readonly intervalMs: number;
  readonly heights: number;
}

interface Times {
  /** In the daemon, from the receipt of a collection, each of them, to its durable commit. */
  readonly insideMs: (share: number) => number;
  /** From the node's sending of the last collection to the first 200. */
  readonly outsideMs: readonly number[];
  /** From the finalization of the block to the first 200. */
  readonly finalizedMs: readonly number[];
}

/** Blocks whose collections come some time after them. */
const FRESH = {
  ...{ profile: 'dense' as const, history: HISTORY, warmUpHeights: 60 },
  ...{ heights: 200, quickHeights: 40 },
};

const { values: args } = scriptOptions({
  options: {
    program: { type: 'string', default: 'dist/main.js' },
    /** The scene of fresh blocks alone. */
    fresh: { type: 'boolean', default: false },
  },
  strict: false,
});

const scenes: readonly Scene[] = (['edi-only', 'requester-only', 'hybrid'] as const).flatMap((mode) => [
  { mode, profile: 'dense', intervalMs: 50, heights: 300 },
  { mode, profile: 'mainnet', intervalMs: 50, heights: 300 },
  { mode, profile: 'dense', intervalMs: 800, heights: 20 },
]);
const quickScenes: readonly Scene[] = scenes
  .filter(({ profile, intervalMs }) => profile === 'dense' && intervalMs < 100)
  .map((scene) => ({ ...scene, heights: 60 }));

await bench(
  {
    title: 'At the tip',
    about:
      'The daemon follows a chain that grows by the clock. Inside: the histogram collection_receive_to_indexed_seconds, ' +
      'from the receipt of every collection (so the wait for the block’s other collections counts too) to the commit that ' +
      'makes it durable and readable; quantiles as Prometheus computes them, interpolated within a bucket. Outside: from ' +
      'the moment the node hands the last message of a height to its gRPC to the first 200 for the last collection of the ' +
      'height, asked for by id without a pause from its finalization on: the way to the daemon and one read are in it, and ' +
      'the asking itself is a load. Execution data is there as soon as the block is finalized, which real nodes are not. ' +
      'Fresh blocks: the node has each collection some time after its block is finalized (p50 105 ms, p90 242 ms, as measured on a ' +
      'network), and late is from the moment at which it has all of a height until that height can be read; no execution data.',
  },
  async ({ quick }) => {
    const measured: { scene: Scene; times: Times }[] = [];
    const fresh = await followFresh({
      ...FRESH,
      heights: quick ? FRESH.quickHeights : FRESH.heights,
      program: String(args.program),
    });
    process.stderr.write('fresh blocks\n');
    for (const scene of args.fresh === true ? [] : quick ? quickScenes : scenes) {
      measured.push({ scene, times: await follow(scene) });
      process.stderr.write(`${scene.mode}, ${scene.profile}, every ${scene.intervalMs} ms\n`);
    }
    const worst = (pick: (times: Times) => number, intervalMs: number): number =>
      Math.max(
        ...measured.filter(({ scene }) => scene.intervalMs === intervalMs).map(({ times }) => pick(times)),
      );
    return {
      tables: [
        {
          title: 'Milliseconds',
          columns: [
            ...['scene', 'heights'],
            ...['inside p50', 'inside p99', 'outside p50', 'outside p99', 'slowest'],
            'finalized → readable p50',
          ],
          rows: measured.map(({ scene, times }) => [
            `${scene.mode}, ${scene.profile}, every ${scene.intervalMs} ms`,
            times.outsideMs.length,
            digits(times.insideMs(0.5)),
            digits(times.insideMs(0.99)),
            digits(percentile(times.outsideMs, 0.5)),
            digits(percentile(times.outsideMs, 0.99)),
            digits(Math.max(...times.outsideMs)),
            digits(percentile(times.finalizedMs, 0.5)),
          ]),
        },
      ],
      figures: [
        ...freshFigures(fresh),
        ...[50, 800]
          .filter((intervalMs) => measured.some(({ scene }) => scene.intervalMs === intervalMs))
          .flatMap((intervalMs) => {
            const unit = 'ms';
            const at = `every ${intervalMs} ms, slowest scene`;
            return [
              {
                what: `tip, inside, p50, ${at}`,
                value: worst((times) => times.insideMs(0.5), intervalMs),
                unit,
                atMost: 5,
              },
              {
                what: `tip, inside, p99, ${at}`,
                value: worst((times) => times.insideMs(0.99), intervalMs),
                unit,
                atMost: 30,
              },
              {
                what: `tip, outside, p50, ${at}`,
                value: worst((times) => percentile(times.outsideMs, 0.5), intervalMs),
                unit,
                atMost: 5,
              },
              {
                what: `tip, outside, p99, ${at}`,
                value: worst((times) => percentile(times.outsideMs, 0.99), intervalMs),
                unit,
                atMost: 30,
              },
            ];
          }),
      ],
    };
  },
);
process.exit(0);

async function follow({ mode, profile, intervalMs, heights }: Scene): Promise<Times> {
  const node = await startTipNode({
    ...{ profile, blockIntervalMs: intervalMs, startHead: HISTORY },
    ...{ sealedLag: SEALED_LAG, executionDataLag: -SEALED_LAG },
  });
  const dataDir = mkdtempSync(join(scratch, 'data-'));
  const daemon = await startLiveDaemon({ node: node.address, mode, dataDir, program: String(args.program) });
  await daemon.reaches(HISTORY);
  const connection = await HttpConnection.open(daemon.apiPort);
  const chain = new ChainGenerator({ profile });
  const readable = new Map<number, number>();
  let before = await daemon.metrics();
  node.resume();
  const first = HISTORY + WARM_UP_HEIGHTS + 1;
  for (let height = HISTORY + 1; height < first + heights; height += 1) {
    if (height === first) before = await daemon.metrics();
    const last = chain.block(height).collections.at(-1);
    await node.finalized(height);
    if (last === undefined) continue;
    const path = `/v1/collections/${last.id}`;
    while ((await connection.get(path)).status !== 200);
    readable.set(height, nowMs());
  }
  const buckets = since(
    bucketsOf(before, RECEIVE_TO_INDEXED),
    bucketsOf(await daemon.metrics(), RECEIVE_TO_INDEXED),
  );
  const outsideMs: number[] = [];
  const finalizedMs: number[] = [];
  for (const [height, atMs] of readable) {
    if (height < first) continue;
    outsideMs.push(atMs - (node.sentAtMs(height) ?? Number.NaN));
    finalizedMs.push(atMs - (await node.finalized(height)));
  }
  connection.close();
  await daemon.stop();
  node.close();
  rmSync(dataDir, { recursive: true });
  return { insideMs: (share) => quantile(buckets, share) * 1000, outsideMs, finalizedMs };
}

function freshFigures({ lateMs, callsPerCollection }: FreshTimes): Figure[] {
  const late = (share: number): number => percentile(lateMs, share);
  return [
    { what: 'tip, fresh blocks, late, p50', value: late(0.5), unit: 'ms', atMost: 40 },
    { what: 'tip, fresh blocks, late, p99', value: late(0.99), unit: 'ms', atMost: 120 },
    {
      what: 'tip, fresh blocks, calls per collection',
      value: callsPerCollection,
      unit: 'calls',
      atMost: 2.5,
    },
  ];
}

function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
