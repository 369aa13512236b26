/** How soon a block at the tip can be read. Build first: it runs `dist/main.js`. */
import { ChainGenerator } from '../../src/devnet/index.js';
import type { ScrapedMetrics } from '../support/scrapedMetrics.js';
import { startDaemon } from './lib/daemon.js';
import { followFresh } from './lib/followFresh.js';
import { HttpConnection } from './lib/HttpConnection.js';
import { startTipNode } from './lib/node.js';
import { freshDirectory } from './lib/processes.js';
import { atMost, bench, digits, type Figure } from './lib/report.js';
import { nowMs, percentile } from './lib/statistics.js';

const HISTORY = 50;
const WARM_UP_HEIGHTS = 30;
const SEALED_LAG = 4;
const RECEIVE_TO_INDEXED = 'collection_receive_to_indexed_seconds';

/** Blocks whose collections come some time after them. */
const FRESH = {
  ...{ profile: 'dense' as const, history: HISTORY, warmUpHeights: 60 },
  ...{ heights: 200, quickHeights: 40 },
};

const scenes = (['edi-only', 'requester-only', 'hybrid'] as const).flatMap((mode) => [
  { mode, profile: 'dense' as const, intervalMs: 50, heights: 300 },
  { mode, profile: 'mainnet' as const, intervalMs: 50, heights: 300 },
  { mode, profile: 'dense' as const, intervalMs: 800, heights: 20 },
]);
const quickScenes = scenes
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
    const fresh = await followFresh({ ...FRESH, heights: quick ? FRESH.quickHeights : FRESH.heights });
    const measured: Awaited<ReturnType<typeof follow>>[] = [];
    for (const scene of quick ? quickScenes : scenes) measured.push(await follow(scene));
    const figuresAt = (intervalMs: number): Figure[] => {
      const ofScenes = measured.filter(({ scene }) => scene.intervalMs === intervalMs);
      const figure = (where: 'inside' | 'outside', share: number, most: number): Figure => {
        const value = Math.max(...ofScenes.map((times) => times[where](share)));
        return atMost(
          most,
          `tip, ${where}, p${share * 100}, every ${intervalMs} ms, slowest scene`,
          value,
          'ms',
        );
      };
      if (ofScenes.length === 0) return [];
      const both = ['inside', 'outside'] as const;
      return both.flatMap((where) => [figure(where, 0.5, 5), figure(where, 0.99, 30)]);
    };
    return {
      tables: [
        {
          title: 'Milliseconds',
          columns: ['scene', 'heights', 'inside p50', 'inside p99', 'outside p50', 'outside p99', 'slowest'],
          rows: measured.map(({ scene, inside, outside }) => [
            `${scene.mode}, ${scene.profile}, every ${scene.intervalMs} ms`,
            scene.heights,
            ...[inside(0.5), inside(0.99), outside(0.5), outside(0.99), outside(1)].map(digits),
          ]),
        },
      ],
      figures: [
        atMost(40, 'tip, fresh blocks, late, p50', percentile(fresh.lateMs, 0.5), 'ms'),
        atMost(120, 'tip, fresh blocks, late, p99', percentile(fresh.lateMs, 0.99), 'ms'),
        atMost(2.5, 'tip, fresh blocks, calls per collection', fresh.callsPerCollection, 'calls'),
        ...figuresAt(50),
        ...figuresAt(800),
      ],
    };
  },
);

/** Milliseconds that a share of all do not exceed, in the daemon, and from the node's sending to the first 200. */
async function follow(scene: (typeof scenes)[number]) {
  const { mode, profile, intervalMs, heights } = scene;
  const node = await startTipNode({
    ...{ profile, blockIntervalMs: intervalMs, startHead: HISTORY },
    ...{ sealedLag: SEALED_LAG, executionDataLag: -SEALED_LAG },
  });
  const dataDir = freshDirectory();
  const daemon = await startDaemon({ node: node.address, mode, dataDir });
  await daemon.reaches(HISTORY);
  const connection = await HttpConnection.open(daemon.apiPort);
  const chain = new ChainGenerator({ profile });
  const readable = new Map<number, number>();
  const buckets = async (): Promise<Buckets> => bucketsOf(await daemon.metrics());
  let before: Buckets = [];
  node.pace();
  const first = HISTORY + WARM_UP_HEIGHTS + 1;
  for (let height = HISTORY + 1; height < first + heights; height += 1) {
    if (height === first) before = await buckets();
    const last = chain.block(height).collections.at(-1);
    await node.finalized(height);
    if (last === undefined) continue;
    const path = `/v1/collections/${last.id}`;
    while ((await connection.get(path)) !== 200);
    readable.set(height, nowMs());
  }
  const during = (await buckets()).map(
    ([upToMs, count], index) => [upToMs, count - (before[index]?.[1] ?? 0)] as const,
  );
  const outsideMs = [...readable]
    .filter(([height]) => height >= first)
    .map(([height, atMs]) => atMs - node.sentAtMs(height));
  connection.close();
  await daemon.ends('SIGTERM');
  node.close();
  return {
    scene,
    inside: (share: number) => quantile(during, share),
    outside: (share: number) => percentile(outsideMs, share),
  };
}

/** The buckets of one histogram of /metrics, all series added up: upper bound in milliseconds and how many are at most that. */
type Buckets = readonly (readonly [upToMs: number, count: number])[];

function bucketsOf(metrics: ScrapedMetrics): Buckets {
  const counts = new Map<number, number>();
  for (const { labels, value } of metrics.series(`${RECEIVE_TO_INDEXED}_bucket`)) {
    const upToMs = Number(labels['le']?.replace('+Inf', 'Infinity')) * 1_000;
    counts.set(upToMs, (counts.get(upToMs) ?? 0) + value);
  }
  return [...counts].sort(([left], [right]) => left - right);
}

/** The value that `share` of all do not exceed, as Prometheus computes it: evenly spread within a bucket. */
function quantile(buckets: Buckets, share: number): number {
  const wanted = (buckets.at(-1)?.[1] ?? 0) * share;
  let [lower, below] = [0, 0];
  for (const [upTo, count] of buckets) {
    if (count >= wanted && count > below)
      return upTo === Infinity ? lower : lower + ((upTo - lower) * (wanted - below)) / (count - below);
    [lower, below] = [upTo, count];
  }
  return Number.NaN;
}
