/**
 * How fast the index is read over HTTP and over gRPC while the daemon is at the tip, against bare unary calls for the same
 * ids, of the node and of a server that is grpc-js and nothing else; and what a steady load of reads and a catch-up at full speed do to each other. Build first: it runs `dist/main.js`.
 *
 *     --program PATH    the daemon's main.js [dist/main.js]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Mode } from './lib/daemonRun.js';
import { startLiveDaemon } from './lib/liveDaemon.js';
import { startBenchNode } from './lib/node.js';
import { scratch } from './lib/processes.js';
import { startBareServer, startReadClient } from './lib/readClient.js';
import type { ReadKind, ReadResult } from './lib/readClient.js';
import { bench, digits } from './lib/report.js';
import type { Table } from './lib/report.js';
import { interleave, median, percentile, ratioOf } from './lib/statistics.js';

const PROFILE = 'dense';
const SEED = 1;
const TIP_HEIGHTS = 2_000;
/** The slower source needs fewer for a run that is long beside its beginning. */
const CATCH_UP_HEIGHTS: Readonly<Record<Mode, number>> = {
  'edi-only': 12_000,
  'requester-only': 5_000,
  hybrid: 12_000,
};
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

const { values: args } = parseArgs({
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
      'offered by the clock, whatever is answered; latency counts from the moment a read is due, after the first second and a half. Daemon, node and client ' +
      'share the processors, and the node works for the catch-up only.',
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
    const catchUps: Record<string, () => Promise<CatchUp>> = {};
    for (const mode of MODES) {
      catchUps[mode] = () => catchUp(mode, false);
      catchUps[`${mode} read`] = () => catchUp(mode, true);
    }
    async function catchUp(mode: Mode, isRead: boolean): Promise<CatchUp> {
      const dir = mkdtempSync(join(scratch, 'data-'));
      const run = await startLiveDaemon({
        node: node.address,
        mode,
        dataDir: dir,
        program,
        stopHeight: heightsOf(mode),
      });
      const startedAtMs = performance.now();
      const reading = isRead
        ? loaded.run({
            how: 'offer',
            port: run.apiPort,
            perSecond: OFFERED_PER_SECOND,
            connections: OFFER_CONNECTIONS,
          })
        : undefined;
      await run.exited;
      const heightsPerSecond = (heightsOf(mode) * 1000) / (performance.now() - startedAtMs);
      loaded.stop();
      const result = await reading;
      rmSync(dir, { recursive: true });
      return { heightsPerSecond, ...(result === undefined ? {} : { result }) };
    }
    const runs = await interleave(catchUps, { rounds });
    const speedsOf = (name: string): number[] =>
      (runs[name] ?? []).map(({ heightsPerSecond }) => heightsPerSecond);
    const readsOf = (mode: Mode): ReadResult[] =>
      (runs[`${mode} read`] ?? []).flatMap(({ result }) => (result === undefined ? [] : [result]));
    const p99 = (mode: Mode, share = 0.99): number =>
      median(readsOf(mode).map(({ latenciesMs }) => percentile(latenciesMs, share)));
    const rate = (mode: Mode): number => median(readsOf(mode).map(({ readsPerSecond }) => readsPerSecond));
    node.close();
    loaded.close();

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
            'mode',
            'heights',
            'heights/s alone',
            'heights/s read',
            'reads/s',
            'p50 ms',
            'p99 ms',
            'turned away',
          ],
          rows: MODES.map((mode) => [
            mode,
            heightsOf(mode),
            digits(median(speedsOf(mode))),
            digits(median(speedsOf(`${mode} read`))),
            digits(rate(mode)),
            digits(p99(mode, 0.5)),
            digits(p99(mode)),
            digits(median(readsOf(mode).map(({ turnedAway }) => turnedAway))),
          ]),
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
        ...MODES.flatMap((mode) => [
          { what: `reads/s during catch-up, ${mode}`, value: rate(mode), atLeast: 0.99 * OFFERED_PER_SECOND },
          { what: `their p99, ${mode}`, value: p99(mode), unit: 'ms', atMost: 20 },
          {
            what: `catch-up while read ÷ alone, ${mode}`,
            value: ratioOf(speedsOf(`${mode} read`), speedsOf(mode)),
            atLeast: 0.75,
          },
        ]),
      ],
    };
  },
);
process.exit(0);

interface CatchUp {
  readonly heightsPerSecond: number;
  readonly result?: ReadResult;
}
