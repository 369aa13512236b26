/**
 * How fast the index is read over HTTP and over gRPC while the daemon is at the tip, against bare unary calls for the same
 * ids, of the node and of a server that is grpc-js and nothing else; what a steady load of reads and a catch-up do to each other,
 * at the pace of a node and at full speed; and how soon followers hear of the tip. Build first: it runs `dist/main.js`.
 *
 *     --program PATH    the daemon's main.js [dist/main.js]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Mode } from './lib/daemonRun.js';
import { startFollowers } from './lib/followers.js';
import { startLiveDaemon } from './lib/liveDaemon.js';
import { startBenchNode } from './lib/node.js';
import type { BenchNode } from './lib/node.js';
import { scratch } from './lib/processes.js';
import { startBareServer, startReadClient } from './lib/readClient.js';
import type { ReadClient, ReadKind, ReadResult } from './lib/readClient.js';
import { bench, digits } from './lib/report.js';
import type { Table } from './lib/report.js';
import { interleave, median, percentile, ratioOf } from './lib/statistics.js';
import { startTipNode } from './lib/tipNode.js';
import { scriptOptions } from '../support/scriptOptions.js';

const PROFILE = 'dense';
const SEED = 1;
const TIP_HEIGHTS = 2_000;
/** The slower source needs fewer for a run that is long beside its beginning. */
const CATCH_UP_HEIGHTS: Readonly<Record<Mode, number>> = {
  'edi-only': 16_000,
  'requester-only': 7_000,
  hybrid: 16_000,
};
/** What a node gives that is not the limit: about a quarter of what the daemon can take. */
const PACE_PER_SECOND = 300;
const PACED_HEIGHTS = 4_500;
/** Followers of the tip, and the chain that they follow. */
const FOLLOWERS = 100;
const FOLLOWED = { historyHeights: 50, warmUpHeights: 40, heights: 300, quickHeights: 60, intervalMs: 50 };
/** The best of these is taken, for either side. */
const CONCURRENCIES = [8, 16, 64];
const READS = 5_000;
const QUICK_READS = 2_000;
const OFFERED_PER_SECOND = 1_000;
const OFFER_CONNECTIONS = 64;
/** Who is asked at the tip: the daemon by either of its ports, the node, and the bare server. */
const SIDES = ['http', 'grpc', 'node', 'bare'] as const;
type Side = (typeof SIDES)[number];
const KINDS: readonly ReadKind[] = ['transaction', 'collection'];
const MODES: readonly Mode[] = ['edi-only', 'requester-only'];
const SCENES = [
  'paced, edi-only',
  'paced, requester-only',
  'full speed, edi-only',
  'full speed, requester-only',
] as const;
type SceneName = (typeof SCENES)[number];

const { values: args } = scriptOptions({
  options: {
    program: { type: 'string', default: 'dist/main.js' },
  },
  strict: false,
});
const program = String(args.program);

await bench(
  {
    title: 'Reads',
    about:
      'Transactions and whole collections by random ids, over kept-alive HTTP connections from a client in a process of ' +
      'its own. At the tip: as fast as they are answered, against GetTransaction and GetFullCollectionByID called bare on ' +
      'grpc-js for the same ids at the node, each side at its better concurrency. Over gRPC likewise: the same bare client asks the ' +
      'daemon and, as the limit, a server that is grpc-js with the bytes of every answer in a map. During catch-up: 1,000 reads per second ' +
      'offered by the clock, half transactions, half whole collections; latency counts from the moment a read is due. The first ' +
      'four seconds of a daemon, while its code is compiled, are a column of their own. Paced: the node gives 300 heights per second. Full speed: it gives what the daemon takes, and daemon, node and ' +
      'client share the processors. Followers: half over server-sent events, half over gRPC, each on a connection of its own; latency ' +
      'counts from the moment the node hands the last message of a height to its gRPC. Main thread: its processor time as the kernel counts it.',
  },
  async ({ quick, rounds }) => {
    const heightsOf = (mode: Mode): number => CATCH_UP_HEIGHTS[mode] / (quick ? 2 : 1);
    const heights = Math.max(...MODES.map(heightsOf));
    const node = await startBenchNode({ profile: PROFILE, seed: SEED, heights });
    const read = { profile: PROFILE, seed: SEED, heights: TIP_HEIGHTS } as const;
    const client = await startReadClient(read);
    const bareServer = await startBareServer(read);

    const dataDir = mkdtempSync(join(scratch, 'data-'));
    // A stop height would end the daemon: it stays, at the tip of a node that has nothing more to tell.
    const tipNode = await startBenchNode({ profile: PROFILE, seed: SEED, heights: TIP_HEIGHTS });
    const daemon = await startLiveDaemon({ node: tipNode.address, mode: 'edi-only', dataDir, program });
    await daemon.reaches(TIP_HEIGHTS);
    const ports: Readonly<Record<Side, number>> = {
      http: daemon.apiPort,
      grpc: daemon.grpcPort ?? 0,
      node: Number(tipNode.address.split(':')[1]),
      bare: bareServer.port,
    };
    const subjects: Record<string, () => Promise<ReadResult>> = {};
    const reads = quick ? QUICK_READS : READS;
    for (const kind of KINDS) {
      for (const concurrency of CONCURRENCIES) {
        for (const side of SIDES) {
          const how = side === 'http' ? 'http' : 'grpc';
          subjects[`${kind} ${side} ${concurrency}`] = () =>
            client.run({ how, kind, port: ports[side], concurrency, reads });
        }
      }
    }
    for (const warmUp of Object.values(subjects)) await warmUp();
    const atTip = await interleave(subjects, { rounds });
    const speeds = (name: string): number[] =>
      (atTip[name] ?? []).map(({ readsPerSecond }) => readsPerSecond);
    /** Of each round, what the better concurrency reached. */
    const best = (kind: ReadKind, side: Side): number[] =>
      Array.from({ length: rounds }, (_, round) =>
        Math.max(...CONCURRENCIES.map((concurrency) => speeds(`${kind} ${side} ${concurrency}`)[round] ?? 0)),
      );
    await daemon.stop();
    tipNode.close();
    bareServer.close();
    client.close();

    const loaded = await startReadClient({ profile: PROFILE, seed: SEED, heights });
    const paced = await startBenchNode({
      ...{ profile: PROFILE, seed: SEED, heights: PACED_HEIGHTS, heightsPerSecond: PACE_PER_SECOND },
    });
    const scenes: Readonly<Record<SceneName, Scene>> = {
      'paced, edi-only': { node: paced, mode: 'edi-only', heights: PACED_HEIGHTS, isPaced: true },
      'paced, requester-only': { node: paced, mode: 'requester-only', heights: PACED_HEIGHTS, isPaced: true },
      'full speed, edi-only': { node, mode: 'edi-only', heights: heightsOf('edi-only'), isPaced: false },
      'full speed, requester-only': {
        ...{ node, mode: 'requester-only', heights: heightsOf('requester-only'), isPaced: false },
      },
    };
    const runs = await interleave(
      Object.fromEntries(
        SCENES.flatMap((name) => [
          [name, () => catchUp(scenes[name])],
          [`${name}, read`, () => catchUp(scenes[name], loaded)],
        ]),
      ) as Record<string, () => Promise<CatchUp>>,
      { rounds },
    );
    const speedsOf = (name: string): number[] =>
      (runs[name] ?? []).map(({ heightsPerSecond }) => heightsPerSecond);
    const mainThreadOf = (name: string): number[] =>
      (runs[name] ?? []).map(({ mainThreadMsPerHeight }) => mainThreadMsPerHeight);
    const readsOf = (name: SceneName): ReadResult[] =>
      (runs[`${name}, read`] ?? []).flatMap(({ result }) => (result === undefined ? [] : [result]));
    const p99 = (name: SceneName, share = 0.99): number =>
      median(readsOf(name).map(({ latenciesMs }) => percentile(latenciesMs, share)));
    const firstP99 = (name: SceneName): number =>
      median(readsOf(name).map(({ firstLatenciesMs }) => percentile(firstLatenciesMs, 0.99)));
    const rate = (name: SceneName): number =>
      median(readsOf(name).map(({ readsPerSecond }) => readsPerSecond));
    /** Of all that were sent. */
    const answered = (name: SceneName): number =>
      median(
        readsOf(name).map(({ reads, turnedAway, unanswered }) => reads / (reads + turnedAway + unanswered)),
      );
    const mainThreadRatio = (name: string, alone: string): number =>
      ratioOf(mainThreadOf(name), mainThreadOf(alone));
    node.close();
    paced.close();
    loaded.close();

    const follows = await interleave(
      { alone: () => followed(0, quick), followed: () => followed(FOLLOWERS, quick) },
      { rounds },
    );
    const latenciesOfFollowers = (share: number): number =>
      median(follows.followed.map(({ latenciesMs }) => percentile(latenciesMs, share)));
    const mainThreadFollowed = follows.followed.map(({ mainThreadMsPerHeight: ms }) => ms);
    const mainThreadUnfollowed = follows.alone.map(({ mainThreadMsPerHeight: ms }) => ms);

    const tipTable = (name: string, side: Side, limitName: string, limit: Side): Table => ({
      title: `At the tip over ${name}, random ids of ${TIP_HEIGHTS} heights of 5 × 10`,
      columns: ['read', `${name} reads/s`, 'p50 ms', 'p99 ms', `${limitName}/s`, `${name} ÷ bare`],
      rows: KINDS.flatMap((kind) =>
        CONCURRENCIES.map((concurrency) => {
          const own = `${kind} ${side} ${concurrency}`;
          const bare = `${kind} ${limit} ${concurrency}`;
          const latency = (share: number): string =>
            digits(median((atTip[own] ?? []).map(({ latenciesMs }) => percentile(latenciesMs, share))));
          return [
            `${kind}, ${concurrency} at once`,
            digits(median(speeds(own))),
            latency(0.5),
            latency(0.99),
            digits(median(speeds(bare))),
            digits(ratioOf(speeds(own), speeds(bare))),
          ];
        }),
      ),
    });

    return {
      tables: [
        tipTable('HTTP', 'http', 'bare unary calls', 'node'),
        tipTable('gRPC', 'grpc', 'bare server, reads', 'bare'),
        {
          title: `${OFFERED_PER_SECOND} reads per second offered while the daemon catches up`,
          columns: [
            ...['scene', 'heights', 'heights/s alone', 'heights/s read', 'reads/s', 'p50 ms', 'p99 ms'],
            ...['p99 ms, first 4 s', 'not answered', 'main thread ms/height alone', 'read'],
          ],
          rows: SCENES.map((name) => [
            name,
            scenes[name].heights,
            digits(median(speedsOf(name))),
            digits(median(speedsOf(`${name}, read`))),
            digits(rate(name)),
            digits(p99(name, 0.5)),
            digits(p99(name)),
            digits(firstP99(name)),
            digits(median(readsOf(name).map(({ turnedAway, unanswered }) => turnedAway + unanswered))),
            digits(median(mainThreadOf(name))),
            digits(median(mainThreadOf(`${name}, read`))),
          ]),
        },
        {
          title: `${FOLLOWERS} followers of a chain of ${1_000 / FOLLOWED.intervalMs} heights per second`,
          columns: ['heights', 'p50 ms', 'p99 ms', 'main thread ms/height alone', 'followed'],
          rows: [
            [
              quick ? FOLLOWED.quickHeights : FOLLOWED.heights,
              digits(latenciesOfFollowers(0.5)),
              digits(latenciesOfFollowers(0.99)),
              digits(median(mainThreadUnfollowed)),
              digits(median(mainThreadFollowed)),
            ],
          ],
        },
      ],
      figures: [
        ...KINDS.map((kind) => ({
          what: `reads at the tip ÷ bare unary, ${kind}`,
          value: ratioOf(best(kind, 'http'), best(kind, 'node')),
          atLeast: 0.7,
        })),
        ...KINDS.map((kind) => ({
          what: `gRPC reads at the tip ÷ bare server, ${kind}`,
          value: ratioOf(best(kind, 'grpc'), best(kind, 'bare')),
          atLeast: 0.7,
        })),
        ...SCENES.flatMap((name) => {
          const { isPaced } = scenes[name];
          return [
            { what: `reads answered, ${name}`, value: answered(name), atLeast: 1 },
            { what: `reads/s, ${name}`, value: rate(name), atLeast: 0.99 * OFFERED_PER_SECOND },
            { what: `their p99, ${name}`, value: p99(name), unit: 'ms', atMost: isPaced ? 20 : 250 },
            {
              what: `catch-up while read ÷ alone, ${name}`,
              value: ratioOf(speedsOf(`${name}, read`), speedsOf(name)),
              atLeast: isPaced ? 0.95 : 0.75,
            },
            {
              what: `main thread per height while read ÷ alone, ${name}`,
              value: mainThreadRatio(`${name}, read`, name),
              ...(isPaced ? {} : { atMost: 1.05 }),
            },
          ];
        }),
        {
          what: `${FOLLOWERS} followers of the tip, p99`,
          value: latenciesOfFollowers(0.99),
          unit: 'ms',
          atMost: 50,
        },
        {
          what: 'main thread per height, followed ÷ alone',
          value: ratioOf(mainThreadFollowed, mainThreadUnfollowed),
          atMost: 1.1,
        },
      ],
    };
  },
);
process.exit(0);

/** Indexes the scene's heights into an empty store, while it is read where there is a client to. */
async function catchUp({ node, mode, heights, isPaced }: Scene, client?: ReadClient): Promise<CatchUp> {
  const dataDir = mkdtempSync(join(scratch, 'data-'));
  const daemon = await startLiveDaemon({ node: node.address, mode, dataDir, program, stopHeight: heights });
  const usedMs = daemon.mainThreadMs();
  const startedAtMs = performance.now();
  if (isPaced) node.pace();
  const reading = client?.run({
    how: 'offer',
    port: daemon.apiPort,
    perSecond: OFFERED_PER_SECOND,
    connections: OFFER_CONNECTIONS,
  });
  await daemon.exited;
  const heightsPerSecond = (heights * 1000) / (performance.now() - startedAtMs);
  client?.stop();
  const result = await reading;
  rmSync(dataDir, { recursive: true });
  return {
    heightsPerSecond,
    mainThreadMsPerHeight: (daemon.mainThreadMs() - usedMs) / heights,
    ...(result === undefined ? {} : { result }),
  };
}

/** Follows a chain that grows by the clock. */
async function followed(
  followers: number,
  quick: boolean,
): Promise<{ readonly latenciesMs: readonly number[]; readonly mainThreadMsPerHeight: number }> {
  const { historyHeights, warmUpHeights, intervalMs } = FOLLOWED;
  const heights = quick ? FOLLOWED.quickHeights : FOLLOWED.heights;
  const tip = await startTipNode({
    ...{ profile: PROFILE, seed: SEED, blockIntervalMs: intervalMs, startHead: historyHeights },
    // Execution data is there with its block.
    ...{ sealedLag: 4, executionDataLag: -4 },
  });
  const dataDir = mkdtempSync(join(scratch, 'data-'));
  const daemon = await startLiveDaemon({ node: tip.address, mode: 'edi-only', dataDir, program });
  await daemon.reaches(historyHeights);
  const first = historyHeights + warmUpHeights + 1;
  const last = first + heights - 1;
  const following =
    followers === 0
      ? undefined
      : await startFollowers({
          ...{ httpPort: daemon.apiPort, grpcPort: daemon.grpcPort ?? 0, followers },
          ...{ fromHeight: historyHeights, toHeight: last },
        });
  tip.resume();
  await tip.finalized(first);
  const usedMs = daemon.mainThreadMs();
  await tip.finalized(last);
  const mainThreadMsPerHeight = (daemon.mainThreadMs() - usedMs) / heights;
  const arrivals = (await following?.done) ?? [];
  await daemon.stop();
  tip.close();
  rmSync(dataDir, { recursive: true });
  const latenciesMs = arrivals
    .filter(([height]) => height >= first)
    .map(([height, atMs]) => atMs - (tip.sentAtMs(height) ?? Number.NaN));
  return { latenciesMs, mainThreadMsPerHeight };
}

interface Scene {
  readonly node: BenchNode;
  readonly mode: Mode;
  readonly heights: number;
  readonly isPaced: boolean;
}

interface CatchUp {
  readonly heightsPerSecond: number;
  readonly mainThreadMsPerHeight: number;
  readonly result?: ReadResult;
}
