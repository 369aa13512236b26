/**
 * An indexer that feeds another one: how fast, beside asking the same daemon by collection and beside the ideal pipeline, and
 * what followers of the tip cost their source. Build first: it runs `dist/main.js`.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { credentials, makeGenericClientConstructor } from '@grpc/grpc-js';
import { WireWriter } from '../../src/flow/index.js';
import { runDaemon } from './lib/daemonRun.js';
import { runLimit } from './lib/limits.js';
import { startLiveDaemon } from './lib/liveDaemon.js';
import type { LiveDaemon } from './lib/liveDaemon.js';
import { startBenchNode } from './lib/node.js';
import { scratch } from './lib/processes.js';
import { bench, digits } from './lib/report.js';
import type { Findings } from './lib/report.js';
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
    const speeds = await speedsOf(heights, rounds);
    const mirrors = await mirrorSpeeds(heights, rounds);
    const tip = await tipCost(quick ? TIP.quickMs : TIP.fullMs);
    return {
      tables: [speeds.table, mirrors.table, tip.table],
      figures: [
        { what: 'peer stream ÷ by collection', value: ratioOf(speeds.peer, speeds.collection), atLeast: 5 },
        { what: 'peer stream ÷ ideal pipeline', value: ratioOf(speeds.peer, speeds.ideal), atLeast: 0.8 },
        {
          what: 'mirror ÷ execution data of a node',
          value: ratioOf(mirrors.mirror, mirrors.edi),
          atLeast: 1,
        },
        { what: `${TIP.followers} followers of the tip, of a core`, value: tip.share, atMost: 0.1 },
      ],
    };
  },
);
process.exit(0);

async function speedsOf(heights: number, rounds: number) {
  const node = await startBenchNode({ seed: SEED, profile: 'dense', heights });
  const dataDir = mkdtempSync(join(scratch, 'source-'));
  const source = await startLiveDaemon({ node: node.address, mode: 'requester-only', dataDir });
  await source.reaches(heights);
  const address = `127.0.0.1:${source.grpcPort ?? 0}`;
  const speedOf = async (from: string, flags: readonly string[]): Promise<number> =>
    (await runDaemon({ node: from, mode: 'requester-only', heights, flags })).heightsPerSecond;
  const { peer, collection, ideal } = await interleave(
    {
      peer: () => speedOf(node.address, ['--peer', address]),
      collection: () => speedOf(address, []),
      ideal: async () => (await runLimit('idealPipeline', { node: node.address, heights })).heightsPerSecond,
    },
    { rounds },
  );
  await source.stop();
  node.close();
  rmSync(dataDir, { recursive: true });
  const table: Findings['tables'][number] = {
    title: `Catching up, ${heights} heights`,
    columns: ['collections', 'heights/s'],
    rows: [
      ['by peer stream', digits(median(peer))],
      ['by collection, from the same daemon', digits(median(collection))],
      ['limit: ideal pipeline', digits(median(ideal))],
    ],
  };
  return { peer, collection, ideal, table };
}

/** On a chain whose blocks are proven: a mirror of a daemon, and that daemon's own way. */
async function mirrorSpeeds(heights: number, rounds: number) {
  const node = await startBenchNode({ seed: SEED, profile: 'dense', heights, hashedIds: true });
  const dataDir = mkdtempSync(join(scratch, 'source-'));
  const source = await startLiveDaemon({ node: node.address, mode: 'edi-only', dataDir });
  await source.reaches(heights);
  const address = `127.0.0.1:${source.grpcPort ?? 0}`;
  const required = ['--proof-mode', 'required'];
  const { edi, mirror } = await interleave(
    {
      edi: async () =>
        (await runDaemon({ node: node.address, mode: 'edi-only', heights, flags: required }))
          .heightsPerSecond,
      mirror: async () =>
        (await runDaemon({ node: 'none', mode: 'hybrid', heights, flags: [...required, '--peer', address] }))
          .heightsPerSecond,
    },
    { rounds },
  );
  await source.stop();
  node.close();
  rmSync(dataDir, { recursive: true });
  const table: Findings['tables'][number] = {
    title: `Catching up with every block proven, ${heights} heights`,
    columns: ['everything from', 'heights/s'],
    rows: [
      ['the node, with execution data', digits(median(edi))],
      ['the indexer that did so', digits(median(mirror))],
    ],
  };
  return { edi, mirror, table };
}

async function tipCost(lastsMs: number) {
  const { followers, heightsPerSecond, warmUpMs } = TIP;
  const heights = Math.ceil(((4 * (lastsMs + warmUpMs)) / 1_000) * heightsPerSecond);
  const node = await startBenchNode({ seed: SEED, profile: 'dense', heights, heightsPerSecond });
  const dataDir = mkdtempSync(join(scratch, 'tip-'));
  node.pace();
  const source = await startLiveDaemon({ node: node.address, mode: 'requester-only', dataDir });
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
  const table: Findings['tables'][number] = {
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
async function shareOf(daemon: LiveDaemon, lastsMs: number): Promise<number> {
  await sleep(TIP.warmUpMs);
  const [fromSeconds, fromMs] = [await processorSeconds(daemon), performance.now()];
  await sleep(lastsMs);
  return ((await processorSeconds(daemon)) - fromSeconds) / ((performance.now() - fromMs) / 1_000);
}

async function processorSeconds(daemon: LiveDaemon): Promise<number> {
  const found = /^\S*process_cpu_seconds_total(?:\{[^}]*\})? (\S+)$/m.exec(await daemon.metrics());
  if (found === null) throw new Error('the daemon does not tell its processor time');
  return Number(found[1]);
}

/** Followers from the next height on, each on a connection of its own. */
function follow({ grpcPort }: LiveDaemon, followers: number) {
  const Client = makeGenericClientConstructor({}, 'flow_collection_indexer.v1.IndexAPI');
  let messages = 0;
  const streams = Array.from({ length: followers }, () => {
    const client = new Client(`127.0.0.1:${grpcPort ?? 0}`, credentials.createInsecure(), {
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
