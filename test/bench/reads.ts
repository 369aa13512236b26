/** How fast the index is read, and what reads and a catch-up do to each other. Build first: it runs `dist/main.js`. */
import { rmSync } from 'node:fs';
import { startDaemon, type Mode } from './lib/daemon.js';
import { startBenchNode, type BenchNode } from './lib/node.js';
import { freshDirectory } from './lib/processes.js';
import { startBareServer, startReadClient } from './lib/readers.js';
import type { ReadClient, ReadKind, ReadResult } from './lib/readers.js';
import { atLeast, atMost, bench, digits, together, type Findings } from './lib/report.js';
import { interleave, median, percentile, ratioOf } from './lib/statistics.js';

const CHAIN = { profile: 'dense', seed: 1 } as const;
const TIP_HEIGHTS = 2_000;
/** What a node gives that is not the limit: about a quarter of what the daemon can take. */
const PACE_PER_SECOND = 300;
const PACED_HEIGHTS = 4_500;
/** At full speed; the slower source needs fewer for a run that is long beside its beginning. */
const EDI_HEIGHTS = 16_000;
const REQUESTER_HEIGHTS = 7_000;
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
      'client share the processors. Main thread: its processor time as the kernel counts it.',
  },
  async ({ quick, rounds }) =>
    together(
      await atTheTip(quick ? QUICK_READS : READS, rounds),
      await whileCatchingUp(quick ? 0.5 : 1, rounds),
    ),
);

async function atTheTip(reads: number, rounds: number): Promise<Findings> {
  const chain = { ...CHAIN, heights: TIP_HEIGHTS };
  const client = await startReadClient(chain);
  const bareServer = await startBareServer(chain);
  const dataDir = freshDirectory();
  // A stop height would end the daemon: it stays, at the tip of a node that has nothing more to tell.
  const node = await startBenchNode(chain);
  const daemon = await startDaemon({ node: node.address, mode: 'edi-only', dataDir });
  await daemon.reaches(TIP_HEIGHTS);
  const ports: Readonly<Record<Side, number>> = {
    ...{ http: daemon.apiPort, grpc: daemon.grpcPort, bare: bareServer.port },
    node: Number(node.address.split(':')[1]),
  };
  const each = KINDS.flatMap((kind) =>
    CONCURRENCIES.flatMap((concurrency) => SIDES.map((side) => ({ kind, concurrency, side }))),
  );
  const subjects = Object.fromEntries(
    each.map(({ kind, concurrency, side }) => {
      const task = {
        how: side === 'http' ? side : 'grpc',
        kind,
        port: ports[side],
        concurrency,
        reads,
      } as const;
      return [`${kind} ${side} ${concurrency}`, () => client.run(task)];
    }),
  );
  for (const warmUp of Object.values(subjects)) await warmUp();
  const runs = await interleave(subjects, { rounds });
  await daemon.ends('SIGTERM');
  node.close();
  bareServer.close();
  client.close();

  const speeds = (kind: ReadKind, side: Side, concurrency: number): number[] =>
    (runs[`${kind} ${side} ${concurrency}`] ?? []).map(({ readsPerSecond }) => readsPerSecond);
  /** Of each round, what the better concurrency reached. */
  const best = (kind: ReadKind, side: Side): number[] =>
    Array.from({ length: rounds }, (_, round) =>
      Math.max(...CONCURRENCIES.map((concurrency) => speeds(kind, side, concurrency)[round] ?? 0)),
    );
  const against = (name: string, side: Side, limitName: string, limit: Side, what: string): Findings => ({
    tables: [
      {
        title: `At the tip over ${name}, random ids of ${TIP_HEIGHTS} heights of 5 × 10`,
        columns: ['read', `${name} reads/s`, 'p50 ms', 'p99 ms', `${limitName}/s`, `${name} ÷ bare`],
        rows: KINDS.flatMap((kind) =>
          CONCURRENCIES.map((concurrency) => {
            const results = runs[`${kind} ${side} ${concurrency}`] ?? [];
            const latency = (share: number): number =>
              median(results.map(({ latenciesMs }) => percentile(latenciesMs, share)));
            const [own, bare] = [speeds(kind, side, concurrency), speeds(kind, limit, concurrency)];
            return [
              `${kind}, ${concurrency} at once`,
              ...[median(own), latency(0.5), latency(0.99), median(bare), ratioOf(own, bare)].map(digits),
            ];
          }),
        ),
      },
    ],
    figures: KINDS.map((kind) =>
      atLeast(0.7, `${what}, ${kind}`, ratioOf(best(kind, side), best(kind, limit))),
    ),
  });
  return together(
    against('HTTP', 'http', 'bare unary calls', 'node', 'reads at the tip ÷ bare unary'),
    against('gRPC', 'grpc', 'bare server, reads', 'bare', 'gRPC reads at the tip ÷ bare server'),
  );
}

async function whileCatchingUp(share: number, rounds: number): Promise<Findings> {
  const [ediHeights, requesterHeights] = [EDI_HEIGHTS * share, REQUESTER_HEIGHTS * share];
  const heights = Math.max(ediHeights, PACED_HEIGHTS);
  const node = await startBenchNode({ ...CHAIN, heights });
  const paced = await startBenchNode({ ...CHAIN, heights: PACED_HEIGHTS, heightsPerSecond: PACE_PER_SECOND });
  const client = await startReadClient({ ...CHAIN, heights });
  const atPace = { node: paced, heights: PACED_HEIGHTS, isPaced: true };
  const scenes = Object.entries<Scene>({
    'paced, edi-only': { ...atPace, mode: 'edi-only' },
    'paced, requester-only': { ...atPace, mode: 'requester-only' },
    'full speed, edi-only': { node, mode: 'edi-only', heights: ediHeights, isPaced: false },
    'full speed, requester-only': { node, mode: 'requester-only', heights: requesterHeights, isPaced: false },
  });
  const runs = await interleave<string, CatchUp>(
    Object.fromEntries(
      scenes.flatMap(([name, scene]) => [
        [name, () => catchUp(scene)],
        [`${name}, read`, () => catchUp(scene, client)],
      ]),
    ),
    { rounds },
  );
  node.close();
  paced.close();
  client.close();
  const found = scenes.map(([name, { heights: count, isPaced }]) => {
    const [alone, read] = [runs[name] ?? [], runs[`${name}, read`] ?? []];
    const speeds = (list: readonly CatchUp[]): number[] => list.map((run) => run.heightsPerSecond);
    const threads = (list: readonly CatchUp[]): number[] => list.map((run) => run.mainThreadMsPerHeight);
    const ofReads = (pick: (result: ReadResult) => number): number =>
      median(read.flatMap(({ result }) => (result === undefined ? [] : [pick(result)])));
    const rate = ofReads(({ readsPerSecond }) => readsPerSecond);
    const p99 = ofReads(({ latenciesMs }) => percentile(latenciesMs, 0.99));
    const speedRatio = ratioOf(speeds(read), speeds(alone));
    const threadRatio = ratioOf(threads(read), threads(alone));
    const threadWords = `main thread per height while read ÷ alone, ${name}`;
    return {
      row: [
        name,
        ...[count, median(speeds(alone)), median(speeds(read)), rate].map(digits),
        ...[ofReads(({ latenciesMs }) => percentile(latenciesMs, 0.5)), p99].map(digits),
        digits(ofReads(({ firstLatenciesMs }) => percentile(firstLatenciesMs, 0.99))),
        digits(ofReads(({ turnedAway, unanswered }) => turnedAway + unanswered)),
        ...[median(threads(alone)), median(threads(read))].map(digits),
      ],
      figures: [
        atLeast(1, `reads answered, ${name}`, ofReads(answeredShare)),
        atLeast(0.99 * OFFERED_PER_SECOND, `reads/s, ${name}`, rate),
        atMost(isPaced ? 20 : 250, `their p99, ${name}`, p99, 'ms'),
        atLeast(isPaced ? 0.95 : 0.75, `catch-up while read ÷ alone, ${name}`, speedRatio),
        isPaced ? { what: threadWords, value: threadRatio } : atMost(1.05, threadWords, threadRatio),
      ],
    };
  });
  return {
    tables: [
      {
        title: `${OFFERED_PER_SECOND} reads per second offered while the daemon catches up`,
        columns: [
          ...['scene', 'heights', 'heights/s alone', 'heights/s read', 'reads/s', 'p50 ms', 'p99 ms'],
          ...['p99 ms, first 4 s', 'not answered', 'main thread ms/height alone', 'read'],
        ],
        rows: found.map(({ row }) => row),
      },
    ],
    figures: found.flatMap(({ figures }) => figures),
  };
}

function answeredShare({ reads, turnedAway, unanswered }: ReadResult): number {
  return reads / (reads + turnedAway + unanswered);
}

/** Indexes the scene's heights into an empty store, while it is read where there is a client to. */
async function catchUp({ node, mode, heights, isPaced }: Scene, client?: ReadClient) {
  const dataDir = freshDirectory();
  const daemon = await startDaemon({ node: node.address, mode, dataDir, stopHeight: heights });
  const usedMs = daemon.mainThreadMs();
  const startedAtMs = performance.now();
  if (isPaced) node.pace();
  const reading = client?.run({
    how: 'offer',
    port: daemon.apiPort,
    perSecond: OFFERED_PER_SECOND,
    connections: OFFER_CONNECTIONS,
  });
  await daemon.ends();
  const heightsPerSecond = (heights * 1000) / (performance.now() - startedAtMs);
  client?.stop();
  const result = await reading;
  rmSync(dataDir, { recursive: true });
  const mainThreadMsPerHeight = (daemon.mainThreadMs() - usedMs) / heights;
  return { heightsPerSecond, mainThreadMsPerHeight, result };
}

type CatchUp = Awaited<ReturnType<typeof catchUp>>;

interface Scene {
  readonly node: BenchNode;
  readonly mode: Mode;
  readonly heights: number;
  readonly isPaced: boolean;
}
