/** Catching up in all its modes against programs that do no more than they must: see `lib/limits.ts`. */
import { runDaemon } from './lib/daemonRun.js';
import type { DaemonRun, Mode } from './lib/daemonRun.js';
import { runLimit } from './lib/limits.js';
import type { LimitRun } from './lib/limits.js';
import { startBenchNode } from './lib/node.js';
import { bench, digits } from './lib/report.js';
import type { Table } from './lib/report.js';
import { interleave, median, ratioOf } from './lib/statistics.js';

const SEED = 17;
const COLLECTIONS_PER_HEIGHT = 5;
/** Enough that what a run costs once (connections, the first compilation of hot code) is a few per cent. */
const HEIGHTS = { dense: 8_000, naive: 1_000, empty: 80_000 };
const QUICK_HEIGHTS = { dense: 600, naive: 200, empty: 4_000 };
/** How often the drains read their stream, which takes a fraction of a second, in one run. */
const DRAIN_PASSES = 5;
/** Calls under way at once that a bare unary client is tried with; the best one is the limit. */
const CONCURRENCIES = [16, 32, 64];

type Run = Pick<DaemonRun, 'heightsPerSecond' | 'userMsPerHeight'> & Partial<DaemonRun>;

const NAMES = {
  edi: 'product, EDI only',
  requester: 'product, requester only',
  hybrid: 'product, hybrid',
  ideal: 'limit: ideal pipeline',
  idealRequester: 'limit: ideal requester pipeline',
  unary: 'limit: bare unary calls',
  drain: 'limit: bare drain of the execution-data stream',
  reader: 'access layer: the same stream read and scanned',
  naive: 'naive',
  emptyEdi: 'product, EDI only, empty blocks',
  emptyIdeal: 'limit: drain and store, empty blocks',
  emptyDrain: 'limit: bare drain of both streams, empty blocks',
} as const;

await bench(
  {
    title: 'Catching up',
    about:
      'The real program from an empty store to its stop height, everything verified and durable, against a simulated ' +
      'node whose answers are all made beforehand; each run, the limits too, in a process of its own that begins cold, ' +
      'measured from its first message (the program: from the log line that begins the store) to the end of its work. ' +
      'Bare drain and bare unary calls: grpc-js, messages as the bytes that came, nothing else; ' +
      'the execution-data stream alone is read five times over. Ideal pipeline: block ' +
      'stream and execution-data stream, verified, into LevelDB in synced groups, without queue, metrics, or any other ' +
      'check; for empty blocks that is to drain both streams and to store. Ideal requester pipeline: the same with unary calls in ' +
      'the place of execution data. Naive: proto-loader, libraries for RLP and hashes, one value per transaction, array batches, nothing synced.',
  },
  async ({ quick, rounds }) => {
    const heights = quick ? QUICK_HEIGHTS : HEIGHTS;
    const [dense, empty] = await Promise.all([
      startBenchNode({ seed: SEED, profile: 'dense', heights: heights.dense }),
      startBenchNode({ seed: SEED, profile: 'empty', heights: heights.empty }),
    ]);
    const node = dense.address;
    const product = (mode: Mode) => (): Promise<Run> => runDaemon({ node, mode, heights: heights.dense });
    const unary = (concurrency: number): Promise<LimitRun> =>
      runLimit('bareUnary', { node, heights: heights.dense, concurrency });
    const concurrency = quick ? 32 : await bestConcurrency(unary);
    const runs = await interleave<keyof typeof NAMES, Run>(
      {
        edi: product('edi-only'),
        ideal: () => runLimit('idealPipeline', { node, heights: heights.dense }),
        requester: product('requester-only'),
        idealRequester: () => runLimit('idealRequester', { node, heights: heights.dense, concurrency }),
        unary: () => unary(concurrency),
        hybrid: product('hybrid'),
        drain: () => runLimit('bareDrain', { node, heights: heights.dense, passes: DRAIN_PASSES }),
        reader: () => runLimit('accessReader', { node, heights: heights.dense, passes: DRAIN_PASSES }),
        naive: () => runLimit('naive', { node, heights: heights.naive }),
        emptyEdi: () => runDaemon({ node: empty.address, mode: 'edi-only', heights: heights.empty }),
        emptyIdeal: () => runLimit('idealPipeline', { node: empty.address, heights: heights.empty }),
        emptyDrain: () =>
          runLimit('bareDrain', {
            node: empty.address,
            heights: heights.empty,
            streams: ['blocks', 'executionData'],
          }),
      },
      { rounds },
    );
    dense.close();
    empty.close();

    const speeds = Object.fromEntries(
      Object.entries(runs).map(([name, list]) => [name, list.map((run) => run.heightsPerSecond)]),
    ) as Record<keyof typeof NAMES, number[]>;
    const betterSource = speeds.edi.map((speed, round) => Math.max(speed, speeds.requester[round] ?? 0));
    const of = (pick: (run: Run) => number | undefined): number =>
      median(runs.edi.map((run) => pick(run) ?? Number.NaN));
    return {
      tables: [tableOf(runs, concurrency, heights)],
      figures: [
        { what: 'EDI only ÷ ideal pipeline', value: ratioOf(speeds.edi, speeds.ideal), atLeast: 0.8 },
        {
          what: 'requester only ÷ ideal requester pipeline',
          value: ratioOf(speeds.requester, speeds.idealRequester),
          atLeast: 0.85,
        },
        // Of calls that nobody verifies or stores; told only.
        { what: 'requester only ÷ bare unary calls', value: ratioOf(speeds.requester, speeds.unary) },
        {
          what: 'hybrid ÷ the better source alone',
          value: ratioOf(speeds.hybrid, betterSource),
          atLeast: 0.9,
        },
        {
          what: 'reader and wire scan ÷ bare drain',
          value: ratioOf(speeds.reader, speeds.drain),
          atLeast: 0.85,
        },
        { what: 'EDI only ÷ naive', value: ratioOf(speeds.edi, speeds.naive), atLeast: 3.5 },
        {
          what: 'empty blocks ÷ drain and store',
          value: ratioOf(speeds.emptyEdi, speeds.emptyIdeal),
          atLeast: 0.75,
        },
        // Of messages that nobody keeps; told only.
        {
          what: 'empty blocks ÷ bare drain of both streams',
          value: ratioOf(speeds.emptyEdi, speeds.emptyDrain),
        },
        {
          what: 'event-loop delay while catching up, p99',
          value: of((run) => run.eventLoopDelayP99Ms),
          unit: 'ms',
          atMost: 30,
        },
        {
          what: 'anonymous memory while catching up',
          value: of((run) => run.peakAnonymousMiB),
          unit: 'MiB',
          atMost: 400,
        },
      ],
    };
  },
);
process.exit(0);

async function bestConcurrency(run: (concurrency: number) => Promise<LimitRun>): Promise<number> {
  let best = { concurrency: 0, speed: 0 };
  for (const concurrency of CONCURRENCIES) {
    const { heightsPerSecond: speed } = await run(concurrency);
    if (speed > best.speed) best = { concurrency, speed };
  }
  return best.concurrency;
}

function tableOf(
  runs: Record<keyof typeof NAMES, Run[]>,
  concurrency: number,
  heights: typeof HEIGHTS,
): Table {
  const rows = Object.entries(NAMES).map(([key, name]) => {
    const list = runs[key as keyof typeof NAMES];
    const middle = (pick: (run: Run) => number | undefined): number =>
      median(list.map((run) => pick(run) ?? Number.NaN));
    const optional = (value: number): string => (Number.isNaN(value) ? '' : digits(value));
    const speed = middle((run) => run.heightsPerSecond);
    const collections = key.startsWith('empty') ? '' : digits(speed * COLLECTIONS_PER_HEIGHT);
    return [
      key === 'unary' ? `${name}, ${concurrency} at once` : name,
      digits(speed),
      collections,
      digits(middle((run) => run.userMsPerHeight)),
      optional(middle((run) => run.peakAnonymousMiB)),
      optional(middle((run) => run.eventLoopDelayP99Ms)),
    ];
  });
  const { dense, naive, empty } = heights;
  return {
    title:
      `${dense} blocks of ${COLLECTIONS_PER_HEIGHT} × 10 (naive: ${naive}), ${empty} empty ones; medians of ` +
      `${runs.edi.length} rounds`,
    columns: [
      ...['what', 'heights/s', 'collections/s', 'user ms/height', 'anonymous MiB', 'event-loop delay p99 ms'],
    ],
    rows,
  };
}
