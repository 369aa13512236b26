/** How fast an indexer feeds another one. Build first: it runs `dist/main.js`. */
import { drain, startDaemon, type Mode } from './lib/daemon.js';
import { runLimit } from './lib/limits.js';
import { startBenchNode, type BenchNodeOptions } from './lib/node.js';
import { freshDirectory } from './lib/processes.js';
import { atLeast, bench, mediansTable } from './lib/report.js';
import { interleave, ratioOf } from './lib/statistics.js';

const SEED = 17;
const HEIGHTS = { full: 6_000, quick: 800 };

await bench(
  {
    title: 'An indexer feeds indexers',
    about:
      'Blocks of 5 × 10 transactions. One daemon has indexed them; another one, from an empty store to its stop height, everything ' +
      'verified and durable. By peer stream: blocks from the simulated node, collections from the first daemon (--peer). By ' +
      'collection: the first daemon is its only access node. Neither proves anything. Ideal pipeline: as in "Catching up", from the node. ' +
      'Mirror: a daemon with no access node, beside the one that feeds it, both proving every block.',
  },
  async ({ quick, rounds }) => {
    const heights = quick ? HEIGHTS.quick : HEIGHTS.full;
    const required = ['--proof-mode', 'required'];
    const proven = { heights, hashedIds: true };
    // An index gives only light blocks, which nothing can be proven by: it is an access node for those who believe it.
    const believing = { mode: 'requester-only', heights } as const;
    const off = ['--proof-mode', 'off'];
    const bySource = await speedsOf(proven, 'requester-only', rounds, ({ node, source }) => ({
      'by peer stream': speed({ ...believing, node, flags: [...off, '--peer', source] }),
      'by collection, from the same daemon': speed({ ...believing, node: source, flags: off }),
      'limit: ideal pipeline': () => runLimit('idealPipeline', { node, heights }),
    }));
    const { 'by peer stream': peer, 'limit: ideal pipeline': ideal } = bySource;
    const { 'by collection, from the same daemon': other } = bySource;
    const mirrors = await speedsOf(proven, 'edi-only', rounds, ({ node, source }) => ({
      'the node, with execution data': speed({ node, mode: 'edi-only', heights, flags: required }),
      'the indexer that did so': speed({
        ...{ node: 'none', mode: 'hybrid', heights, flags: [...required, '--peer', source] },
      }),
    }));
    const { 'the indexer that did so': mirror, 'the node, with execution data': model } = mirrors;
    return {
      tables: [
        mediansTable(`Catching up, ${heights} heights`, ['collections', 'heights/s'], bySource),
        mediansTable(
          `Catching up with every block proven, ${heights} heights`,
          ['everything from', 'heights/s'],
          mirrors,
        ),
      ],
      figures: [
        atLeast(5, 'peer stream ÷ by collection', ratioOf(peer, other)),
        atLeast(0.8, 'peer stream ÷ ideal pipeline', ratioOf(peer, ideal)),
        atLeast(1, 'mirror ÷ execution data of a node', ratioOf(mirror, model)),
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
  subjectsOf: (addresses: Record<'node' | 'source', string>) => Record<Name, () => Promise<number>>,
): Promise<Record<Name, number[]>> {
  const node = await startBenchNode({ seed: SEED, profile: 'dense', ...chain });
  const dataDir = freshDirectory();
  const source = await startDaemon({ node: node.address, mode, dataDir });
  await source.reaches(chain.heights);
  const subjects = subjectsOf({ node: node.address, source: `127.0.0.1:${source.grpcPort}` });
  const speeds = await interleave(subjects, { rounds });
  await source.ends('SIGTERM');
  node.close();
  return speeds;
}
