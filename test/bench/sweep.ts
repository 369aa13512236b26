/**
 * How fast the daemon catches up, and what it costs: the real program against a simulated access node, both processes of
 * their own, over a finished history (no block growth). Build first: it runs `dist/main.js`.
 *
 *     npx tsx test/bench/sweep.ts --mode edi-only,requester-only,hybrid --rounds 5
 *     npx tsx test/bench/sweep.ts --mode hybrid --sweep window=16,64,256 --latency-ms 20
 *     npx tsx test/bench/sweep.ts --mode edi-only --sweep program=dist/main.js,../other/dist/main.js
 *
 *     --mode LIST                edi-only, requester-only, hybrid                                     [all three]
 *     --heights N                heights per run                                                      [3000]
 *     --rounds N                 runs per variant; medians are printed                                [3]
 *     --profile NAME             blocks of the history: dense (5 collections of 10), mainnet, empty … [dense]
 *     --latency-ms LIST          what the node adds to every GetFullCollectionByID                    [0]
 *     --edi-latency-ms LIST      … and to every message of the execution-data stream                  [0]
 *     --round-trip-ms LIST       how far the node is away: everything travels half of it longer        [0]
 *     --window N, --requester-concurrency N, --workers-per-height N, --max-in-flight-bytes N
 *     --sweep KEY=V1,V2,…        a flag of `start`, `program`, or `node` (flags of node itself) and its values;
 *                                repeatable: all combinations
 *     --program PATH             the daemon's main.js; several builds are compared by --sweep program=… [dist/main.js]
 *     --cpu-prof DIR             leave a profile of each run of the daemon there
 *
 * In every round each variant runs once, so that all of them meet the same noise; the order turns from round to round.
 * The last columns of a table compare heights per second and processor time with the first variant, as the median of
 * the ratios within a round. On a busy machine trust ratios, and processor time before wall time.
 */
import { resolve } from 'node:path';
import { parseFaults } from '../../src/devnet/index.js';
import type { ProfileName } from '../../src/devnet/index.js';
import { startDelayProxy } from './delayProxy.js';
import { modeFlags, runDaemon, sumOfMetrics } from './lib/daemonRun.js';
import type { DaemonRun, Mode } from './lib/daemonRun.js';
import { startBenchNode } from './lib/node.js';
import { formatTable } from './lib/report.js';
import { median, ratioOf } from './lib/statistics.js';
import { scriptOptions } from '../support/scriptOptions.js';

/** What the simulated node adds to its answers, and the way to it, in milliseconds. */
interface Latency {
  readonly collection: number;
  readonly executionData: number;
  readonly roundTrip: number;
}

interface Variant {
  readonly mode: Mode;
  readonly latency: Latency;
  readonly program: string;
  /** Flags of node, separated by blanks. */
  readonly node: string;
  /** Flags of `start` without dashes. */
  readonly flags: Readonly<Record<string, string>>;
}

interface Result extends DaemonRun {
  /** Of the last scrape, not of the very end. */
  readonly requestsPerHeight: number;
  readonly duplicatesPerHeight: number;
  readonly ediShare: number;
}

const { values: args } = scriptOptions({
  options: {
    mode: { type: 'string', default: 'edi-only,requester-only,hybrid' },
    heights: { type: 'string', default: '3000' },
    rounds: { type: 'string', default: '3' },
    profile: { type: 'string', default: 'dense' },
    'latency-ms': { type: 'string', default: '0' },
    'edi-latency-ms': { type: 'string', default: '0' },
    'round-trip-ms': { type: 'string', default: '0' },
    window: { type: 'string' },
    'requester-concurrency': { type: 'string' },
    'workers-per-height': { type: 'string' },
    'max-in-flight-bytes': { type: 'string' },
    sweep: { type: 'string', multiple: true, default: [] },
    program: { type: 'string', default: 'dist/main.js' },
    'cpu-prof': { type: 'string' },
  },
});
const heights = Number(args.heights);
const rounds = Number(args.rounds);

/** Starts a simulated node whose answers are all made beforehand; resolves with its address. */
async function startNode(latency: Latency): Promise<string> {
  const rules = [
    { method: 'GetFullCollectionByID', fault: 'latency', delayMs: latency.collection },
    { method: 'SubscribeExecutionData*', fault: 'latency', delayMs: latency.executionData },
  ].filter(({ delayMs }) => delayMs > 0);
  const faults = parseFaults(JSON.stringify(rules));
  const profile = args.profile as ProfileName;
  const node = await startBenchNode({ profile, heights, faults, blockIntervalMs: 1_000 });
  return node.address;
}

async function measure(variant: Variant, node: string): Promise<Result> {
  const profiling = args['cpu-prof'];
  let scraped = '';
  const run = await runDaemon({
    ...{ node, mode: variant.mode, heights, program: variant.program },
    flags: Object.entries(variant.flags).flatMap(([flag, value]) => [`--${flag}`, value]),
    nodeFlags: [
      ...variant.node.split(' ').filter((flag) => flag !== ''),
      ...(profiling === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', resolve(profiling)]),
    ],
    ...(variant.mode === 'hybrid' ? { onMetrics: (text: string) => (scraped = text) } : {}),
  });
  const indexed = Math.max(1, sumOfMetrics(scraped, 'heights_completed_total'));
  return {
    ...run,
    requestsPerHeight: sumOfMetrics(scraped, 'collections_requested_total') / indexed,
    duplicatesPerHeight: sumOfMetrics(scraped, 'duplicate_collections_total') / indexed,
    ediShare: sumOfMetrics(scraped, 'heights_completed_total{source="edi"}') / indexed,
  };
}

/** `undefined` where it differs from block to block. */
function collectionsPerHeight(profile: string): number | undefined {
  return { dense: 5, empty: 0 }[profile];
}

/** All combinations of modes, latencies and swept values. */
function variantsOf(): Variant[] {
  const fixed: Record<string, string> = {};
  for (const flag of [
    'window',
    'requester-concurrency',
    'workers-per-height',
    'max-in-flight-bytes',
  ] as const) {
    const value = args[flag];
    if (value !== undefined) fixed[flag] = value;
  }
  const numbers = (list: string): number[] => list.split(',').map(Number);
  const latencies = numbers(args['round-trip-ms']).flatMap((roundTrip) =>
    numbers(args['latency-ms']).flatMap((collection) =>
      numbers(args['edi-latency-ms']).map((executionData) => ({ collection, executionData, roundTrip })),
    ),
  );
  const modes = args.mode.split(',').map((mode) => {
    if (!(mode in modeFlags)) throw new Error(`unknown mode ${mode}`);
    return mode as Mode;
  });
  let variants: Variant[] = modes.flatMap((mode) =>
    latencies.map((latency) => ({ mode, latency, program: args.program, node: '', flags: fixed })),
  );
  for (const sweep of args.sweep) {
    const equals = sweep.indexOf('=');
    const key = sweep.slice(0, equals);
    const list = sweep.slice(equals + 1);
    variants = variants.flatMap((variant) =>
      list
        .split(',')
        .map((value) =>
          key === 'program' || key === 'node'
            ? { ...variant, [key]: value }
            : { ...variant, flags: { ...variant.flags, [key]: value } },
        ),
    );
  }
  return variants;
}

function keyOf({ collection, executionData, roundTrip }: Latency): string {
  return `${collection}-${executionData}-${roundTrip}`;
}

function nameOf({ mode, latency, program, node, flags }: Variant): string {
  return [
    mode,
    ...(latency.roundTrip > 0 ? [`round trip=${latency.roundTrip} ms`] : []),
    ...(latency.collection > 0 ? [`latency=${latency.collection} ms`] : []),
    ...(latency.executionData > 0 ? [`EDI latency=${latency.executionData} ms`] : []),
    ...(program === 'dist/main.js' ? [] : [program]),
    ...(node === '' ? [] : [`node ${node}`]),
    ...Object.entries(flags).map(([flag, value]) => `${flag}=${value}`),
  ].join(' ');
}

function printTable(variants: readonly Variant[], results: readonly (readonly Result[])[]): void {
  const [first = []] = results;
  const perHeight = collectionsPerHeight(args.profile);
  const rows = variants.map((variant, index) => {
    const own = results[index] ?? [];
    const middle = (pick: (result: Result) => number): number => median(own.map(pick));
    const ratio = (pick: (result: Result) => number): string =>
      ratioOf(own.map(pick), first.map(pick)).toFixed(2);
    const speed = middle((result) => result.heightsPerSecond);
    const hybrid = (pick: (result: Result) => number): string =>
      variant.mode === 'hybrid' ? middle(pick).toFixed(2) : '';
    return [
      nameOf(variant),
      speed.toFixed(0),
      perHeight === undefined ? '' : (speed * perHeight).toFixed(0),
      middle((result) => result.userMsPerHeight).toFixed(3),
      middle((result) => result.systemMsPerHeight).toFixed(3),
      middle((result) => result.mainThreadMsPerHeight).toFixed(3),
      middle((result) => result.peakResidentMiB).toFixed(0),
      middle((result) => result.peakAnonymousMiB).toFixed(0),
      middle((result) => result.eventLoopDelayP99Ms).toFixed(1),
      hybrid((result) => result.requestsPerHeight),
      hybrid((result) => result.duplicatesPerHeight),
      hybrid((result) => result.ediShare),
      ratio((result) => result.heightsPerSecond),
      ratio((result) => result.userMsPerHeight),
      ratio((result) => result.mainThreadMsPerHeight),
    ];
  });
  const columns = [
    ...[
      'variant',
      'heights/s',
      'collections/s',
      'user ms/height',
      'system ms/height',
      'main thread ms/height',
      'peak MiB',
      'anonymous MiB',
      'loop p99 ms',
    ],
    ...[
      'requests/height',
      'duplicates/height',
      'EDI share',
      'speed ÷ first',
      'user time ÷ first',
      'main thread ÷ first',
    ],
  ];
  const title = `${heights} heights of the profile ${args.profile}, medians of ${rounds} rounds`;
  process.stdout.write(formatTable({ title, columns, rows }));
}

const variants = variantsOf();
const nodes = new Map<string, string>();
for (const { latency } of variants) {
  const key = keyOf(latency);
  if (nodes.has(key)) continue;
  const node = await startNode(latency);
  nodes.set(key, latency.roundTrip > 0 ? await startDelayProxy(node, latency.roundTrip) : node);
}
const results: Result[][] = variants.map(() => []);
for (let round = 0; round < rounds; round++) {
  for (const step of variants.keys()) {
    const index = (step + round) % variants.length;
    const variant = variants[index];
    if (variant === undefined) continue;
    const result = await measure(variant, nodes.get(keyOf(variant.latency)) ?? '');
    results[index]?.push(result);
    process.stderr.write(
      `round ${round + 1}: ${nameOf(variant)}: ${result.heightsPerSecond.toFixed(0)} heights/s, ` +
        `${result.userMsPerHeight.toFixed(3)} ms of user time per height\n`,
    );
  }
}
printTable(variants, results);
process.exit(0);
