/** Catching up in all its modes against programs that do no more than they must: see `lib/limits.ts`. */
import { drain, type Drained, type Mode } from './lib/daemon.js';
import { runLimit, type Limit, type LimitTask } from './lib/limits.js';
import { startBenchNode } from './lib/node.js';
import { atLeast, atMost, bench, digits } from './lib/report.js';
import { interleave, median, ratioOf } from './lib/statistics.js';

const SEED = 17;
const COLLECTIONS_PER_HEIGHT = 5;
/** Enough that what a run costs once (connections, the first compilation of hot code) is a few per cent. */
const HEIGHTS = { dense: 8_000, empty: 80_000 };
const QUICK_HEIGHTS = { dense: 600, empty: 4_000 };
/** How often the drains read their stream, which takes a fraction of a second, in one run. */
const DRAIN_PASSES = 5;

const EDI = 'product, EDI only';

type Run = Pick<Drained, 'heightsPerSecond'> & Partial<Drained>;

await bench(
  {
    title: 'Catching up',
    about:
      'The real program from an empty store to its stop height, everything verified and durable, against a simulated ' +
      'node whose answers are all made beforehand; each run, the limits too, in a process of its own that begins cold, ' +
      'measured from its first message (the program: from the log line that begins the store) to the end of its work. ' +
      'Bare drain: grpc-js, messages as the bytes that came, nothing else; ' +
      'the execution-data stream is read five times over. Ideal pipeline: block ' +
      'stream and execution-data stream, verified, into LevelDB in synced groups, without queue, metrics, or any other ' +
      'check; for empty blocks that is to drain both streams and to store. Ideal requester pipeline: the same with unary calls in ' +
      'the place of execution data.',
  },
  async ({ quick, rounds }) => {
    const heights = quick ? QUICK_HEIGHTS : HEIGHTS;
    const [dense, empty] = await Promise.all([
      startBenchNode({ seed: SEED, profile: 'dense', heights: heights.dense }),
      startBenchNode({ seed: SEED, profile: 'empty', heights: heights.empty }),
    ]);
    const chain = { node: dense.address, heights: heights.dense };
    const emptyChain = { node: empty.address, heights: heights.empty };
    const product = (mode: Mode) => (): Promise<Run> => drain({ ...chain, mode });
    const limit =
      (name: Limit, task: Partial<LimitTask> = {}) =>
      async (): Promise<Run> => ({ heightsPerSecond: await runLimit(name, { ...chain, ...task }) });
    const subjects = {
      [EDI]: product('edi-only'),
      'product, requester only': product('requester-only'),
      'product, hybrid': product('hybrid'),
      'limit: ideal pipeline': limit('idealPipeline'),
      'limit: ideal requester pipeline, 32 at once': limit('idealRequester'),
      'limit: bare drain of the execution-data stream': limit('bareDrain', { passes: DRAIN_PASSES }),
      'access layer: the same stream read and scanned': limit('accessReader', { passes: DRAIN_PASSES }),
      'product, EDI only, empty blocks': (): Promise<Run> => drain({ ...emptyChain, mode: 'edi-only' }),
      'limit: drain and store, empty blocks': limit('idealPipeline', emptyChain),
    };
    type Name = keyof typeof subjects;
    const runs = await interleave<Name, Run>(subjects, { rounds });
    dense.close();
    empty.close();

    const speeds = (name: Name): number[] => runs[name].map(({ heightsPerSecond }) => heightsPerSecond);
    const betterSource = speeds(EDI).map((speed, round) =>
      Math.max(speed, speeds('product, requester only')[round] ?? 0),
    );
    const middle = (name: Name, what: keyof Drained): number =>
      median(runs[name].map((run) => run[what] ?? Number.NaN));
    const cell = (value: number): string => (Number.isNaN(value) ? '' : digits(value));
    const ratio = (of: Name, to: Name): number => ratioOf(speeds(of), speeds(to));
    return {
      tables: [
        {
          title:
            `${heights.dense} blocks of ${COLLECTIONS_PER_HEIGHT} × 10, ` +
            `${heights.empty} empty ones; medians of ${rounds} rounds`,
          columns: ['what', 'heights/s', 'collections/s', 'anonymous MiB', 'event-loop delay p99 ms'],
          rows: (Object.keys(subjects) as Name[]).map((key) => {
            const speed = median(speeds(key));
            return [
              key,
              digits(speed),
              key.endsWith('empty blocks') ? '' : digits(speed * COLLECTIONS_PER_HEIGHT),
              cell(middle(key, 'peakAnonymousMiB')),
              cell(middle(key, 'eventLoopDelayP99Ms')),
            ];
          }),
        },
      ],
      figures: [
        atLeast(0.8, 'EDI only ÷ ideal pipeline', ratio(EDI, 'limit: ideal pipeline')),
        atLeast(
          0.85,
          'requester only ÷ ideal requester pipeline',
          ratio('product, requester only', 'limit: ideal requester pipeline, 32 at once'),
        ),
        atLeast(0.9, 'hybrid ÷ the better source alone', ratioOf(speeds('product, hybrid'), betterSource)),
        atLeast(
          0.85,
          'reader and wire scan ÷ bare drain',
          ratio(
            'access layer: the same stream read and scanned',
            'limit: bare drain of the execution-data stream',
          ),
        ),
        atLeast(
          0.75,
          'empty blocks ÷ drain and store',
          ratio('product, EDI only, empty blocks', 'limit: drain and store, empty blocks'),
        ),
        atMost(30, 'event-loop delay while catching up, p99', middle(EDI, 'eventLoopDelayP99Ms'), 'ms'),
        atMost(400, 'anonymous memory while catching up', middle(EDI, 'peakAnonymousMiB'), 'MiB'),
      ],
    };
  },
);
