/**
 * An indexer that feeds another one: how fast, beside asking the same daemon by collection and beside the ideal pipeline, and
 * what followers of the tip cost their source. Build first: it runs `dist/main.js`.
 */
import { rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { credentials, makeGenericClientConstructor } from '@grpc/grpc-js';
import { WireWriter } from '../../src/flow/index.js';
import { drain, startDaemon } from './lib/daemon.js';
import type { Daemon, Mode } from './lib/daemon.js';
import { runLimit } from './lib/limits.js';
import { startBenchNode } from './lib/node.js';
import type { BenchNodeOptions } from './lib/node.js';
import { freshDirectory } from './lib/processes.js';
import { bench, digits } from './lib/report.js';
import type { Table } from './lib/report.js';
import { interleave, median, ratioOf } from './lib/statistics.js';

const SEED = 17;
const HEIGHTS = { full: 6_000, quick: 800 };
/** Some four times as many as mainnet makes. */
const TIP = { heightsPerSecond: 5, followers: 10, warmUpMs: 4_000, fullMs: 40_000, quickMs: 12_000 };
const METHOD = '/flow_collection_indexer.v1.IndexAPI/SubscribeIndexedBlocks';

await bench(
  {
    title: 'An indexer feeds indexers',
    about:
      'Blocks of 5 × 10 transactions. One daemon has indexed them; another one, from an empty store to its stop height, everything ' +
      'verified and durable. By peer stream: blocks from the simulated node, collections from the first daemon (--peer). By ' +
      'collection: the first daemon is its only access node. Ideal pipeline: as in "Catching up", from the node. ' +
      'Mirror: a daemon with no access node, beside the one that feeds it, both proving every block. ' +
      `At the tip: ${TIP.heightsPerSecond} heights per second, processor time of the source with ${TIP.followers} followers of ` +
      'SubscribeIndexedBlocks, less that without any.',
  },
  async ({ quick, rounds }) => {
    const heights = quick ? HEIGHTS.quick : HEIGHTS.full;
    const bySource = await speedsOf({ heights }, 'requester-only', rounds, ({ node, source }) => ({
      'by peer stream': speed({ node, mode: 'requester-only', heights, flags: ['--peer', source] }),
      'by collection, from the same daemon': speed({ node: source, mode: 'requester-only', heights }),
      'limit: ideal pipeline': () => runLimit('idealPipeline', { node, heights }),
    }));
    const { 'by peer stream': peer, 'limit: ideal pipeline': ideal } = bySource;
    const required = ['--proof-mode', 'required'];
    const proven = { heights, hashedIds: true };
    const mirrors = await speedsOf(proven, 'edi-only', rounds, ({ node, source }) => ({
      'the node, with execution data': speed({ node, mode: 'edi-only', heights, flags: required }),
      'the indexer that did so': speed({
        ...{ node: 'none', mode: 'hybrid', heights, flags: [...required, '--peer', source] },
      }),
    }));
    const tip = await tipCost(quick ? TIP.quickMs : TIP.fullMs);
    return {
      tables: [
        tableOf(`Catching up, ${heights} heights`, 'collections', bySource),
        tableOf(`Catching up with every block proven, ${heights} heights`, 'everything from', mirrors),
        tip.table,
      ],
      figures: [
        {
          what: 'peer stream ÷ by collection',
          value: ratioOf(peer, bySource['by collection, from the same daemon']),
          atLeast: 5,
        },
        { what: 'peer stream ÷ ideal pipeline', value: ratioOf(peer, ideal), atLeast: 0.8 },
        {
          what: 'mirror ÷ execution data of a node',
          value: ratioOf(mirrors['the indexer that did so'], mirrors['the node, with execution data']),
          atLeast: 1,
        },
        { what: `${TIP.followers} followers of the tip, of a core`, value: tip.share, atMost: 0.1 },
      ],
    };
  },
);

function speed(options: Parameters<typeof drain>[0]): () => Promise<number> {
  return async () => (await drain(options)).heightsPerSecond;
}

/** Heights per second of each subject, beside a daemon that has indexed the chain of a node. */
async function speedsOf<Name extends string>(
  chain: BenchNodeOptions,
  mode: Mode,
  rounds: number,
  subjectsOf: (addresses: {
    readonly node: string;
    readonly source: string;
  }) => Record<Name, () => Promise<number>>,
): Promise<Record<Name, number[]>> {
  const node = await startBenchNode({ seed: SEED, profile: 'dense', ...chain });
  const dataDir = freshDirectory();
  const source = await startDaemon({ node: node.address, mode, dataDir });
  await source.reaches(chain.heights);
  const subjects = subjectsOf({ node: node.address, source: `127.0.0.1:${source.grpcPort}` });
  const speeds = await interleave(subjects, { rounds });
  await source.stop();
  node.close();
  rmSync(dataDir, { recursive: true });
  return speeds;
}

function tableOf(title: string, column: string, speeds: Readonly<Record<string, number[]>>): Table {
  const rows = Object.entries(speeds).map(([name, values]) => [name, digits(median(values))]);
  return { title, columns: [column, 'heights/s'], rows };
}

async function tipCost(lastsMs: number) {
  const { followers, heightsPerSecond, warmUpMs } = TIP;
  const heights = Math.ceil(((4 * (lastsMs + warmUpMs)) / 1_000) * heightsPerSecond);
  const node = await startBenchNode({ seed: SEED, profile: 'dense', heights, heightsPerSecond });
  const dataDir = freshDirectory();
  node.pace();
  const source = await startDaemon({ node: node.address, mode: 'requester-only', dataDir });
  await source.reaches(2);
  const alone = await shareOf(source, lastsMs);
  const { leave, taken } = follow(source, followers);
  const followed = await shareOf(source, lastsMs);
  const got = taken();
  if (got < followers) throw new Error(`the followers were sent ${got} messages`);
  leave();
  await source.stop();
  node.close();
  rmSync(dataDir, { recursive: true });
  const percent = (share: number): string => digits(100 * share);
  const table: Table = {
    title: `The source at the tip, ${heightsPerSecond} heights/s`,
    columns: ['followers', '% of a core', 'messages taken'],
    rows: [
      ['0', percent(alone), 0],
      [String(followers), percent(followed), got],
    ],
  };
  return { share: Math.max(0, followed - alone), table };
}

/** Processor seconds per second, of all threads. */
async function shareOf(daemon: Daemon, lastsMs: number): Promise<number> {
  await sleep(TIP.warmUpMs);
  const [fromSeconds, fromMs] = [await processorSeconds(daemon), performance.now()];
  await sleep(lastsMs);
  return ((await processorSeconds(daemon)) - fromSeconds) / ((performance.now() - fromMs) / 1_000);
}

async function processorSeconds(daemon: Daemon): Promise<number> {
  const found = /^\S*process_cpu_seconds_total(?:\{[^}]*\})? (\S+)$/m.exec(await daemon.metrics());
  if (found === null) throw new Error('the daemon does not tell its processor time');
  return Number(found[1]);
}

/** Followers from the next height on, each on a connection of its own. */
function follow({ grpcPort }: Daemon, followers: number) {
  const Client = makeGenericClientConstructor({}, 'flow_collection_indexer.v1.IndexAPI');
  let messages = 0;
  const streams = Array.from({ length: followers }, () => {
    const client = new Client(`127.0.0.1:${grpcPort}`, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
    });
    const stream = client.makeServerStreamRequest(
      METHOD,
      (height: number) => new WireWriter().number(1, height).finish(),
      (message: Buffer) => message,
      1,
    );
    stream.on('data', () => (messages += 1));
    stream.on('error', () => client.close());
    return stream;
  });
  return {
    taken: () => messages,
    leave: () => {
      for (const stream of streams) stream.cancel();
    },
  };
}
