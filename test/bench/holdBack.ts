/**
 * What it brings, and costs, that hybrid mode holds requests back for a fresh execution-data stream: requests,
 * duplicates and speed against the time held back, for a stream that is fresh, slow or silent and for near and far
 * nodes. The time is no option of the daemon: builds are compared that differ in nothing but DEFAULT_HOLD_BACK_MS, made
 * here from `dist`. Not part of `npm run bench`; docs/decisions/0003-hold-back.md quotes it.
 *
 *     npx tsx test/bench/holdBack.ts --rounds 3 --heights 800
 *     --hold-ms LIST       times held back [0,250,1000,2000,5000]
 *     --latency-ms LIST    what the node adds to every GetFullCollectionByID [0,20,100]
 *     --stream LIST        fresh, slow, silent [all three]
 *     --program DIR        the built program to start from [dist]
 */
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { FaultRule } from '../../src/devnet/index.js';
import { runDaemon, sumOfMetrics } from './lib/daemonRun.js';
import type { DaemonRun } from './lib/daemonRun.js';
import { startBenchNode } from './lib/node.js';
import { ROOT, scratch } from './lib/processes.js';
import { digits, formatTable } from './lib/report.js';
import { median, ratioOf } from './lib/statistics.js';
import { scriptOptions } from '../support/scriptOptions.js';

const { values: args } = scriptOptions({
  options: {
    rounds: { type: 'string', default: '3' },
    heights: { type: 'string', default: '800' },
    'hold-ms': { type: 'string', default: '0,250,1000,2000,5000' },
    'latency-ms': { type: 'string', default: '0,20,100' },
    stream: { type: 'string', default: 'fresh,slow,silent' },
    program: { type: 'string', default: 'dist' },
  },
});
const heights = Number(args.heights);
const rounds = Number(args.rounds);
const SLOW_MS = 10;
const CONSTANT = /(DEFAULT_HOLD_BACK_MS = )[\d_]+/;

/** What the stream does, as faults of the node. */
const streams: Readonly<Record<string, readonly FaultRule[]>> = {
  fresh: [],
  /** Each message comes later than the one before by this. */
  slow: [{ method: 'SubscribeExecutionData*', fault: 'latency', delayMs: SLOW_MS }],
  /** Falls silent for good at each of two heights, and is open all the while. */
  silent: [heights >> 2, (3 * heights) >> 2].map((height) => ({
    method: 'SubscribeExecutionData*',
    fault: 'stall',
    fromHeight: height,
    toHeight: height,
  })),
};

interface Result extends DaemonRun {
  readonly requests: number;
  readonly duplicates: number;
  readonly heldBack: number;
}

/** The program with another time; resolves with its main.js. */
function buildWith(holdMs: number): string {
  const home = join(scratch, `hold-${holdMs}`);
  mkdirSync(home);
  cpSync(resolve(ROOT, args.program), join(home, 'dist'), { recursive: true });
  for (const name of ['node_modules', 'proto', 'config', 'package.json'])
    symlinkSync(join(ROOT, name), join(home, name));
  const parts = readdirSync(join(home, 'dist/parts')).map((name) => join(home, 'dist/parts', name));
  const file = parts.find((path) => path.endsWith('.js') && CONSTANT.test(readFileSync(path, 'utf8')));
  if (file === undefined) throw new Error('no built file has the constant');
  writeFileSync(file, readFileSync(file, 'utf8').replace(CONSTANT, `$1${holdMs}`));
  return join(home, 'dist/main.js');
}

async function measure(node: string, program: string): Promise<Result> {
  let scraped = '';
  const run = await runDaemon({
    ...{ node, program, mode: 'hybrid', heights },
    onMetrics: (text) => (scraped = text),
  });
  const indexed = Math.max(1, sumOfMetrics(scraped, 'heights_completed_total'));
  const perHeight = (name: string): number => sumOfMetrics(scraped, name) / indexed;
  return {
    ...run,
    requests: perHeight('collections_requested_total'),
    duplicates: perHeight('duplicate_collections_total'),
    heldBack: perHeight('collection_requests_held_back_total'),
  };
}

const holdsMs = args['hold-ms'].split(',').map(Number);
const programs = new Map(holdsMs.map((holdMs) => [holdMs, buildWith(holdMs)]));
const rows: (string | number)[][] = [];
for (const stream of args.stream.split(',')) {
  for (const latencyMs of args['latency-ms'].split(',').map(Number)) {
    const latency: FaultRule = { method: 'GetFullCollectionByID', fault: 'latency', delayMs: latencyMs };
    const faults = [...(streams[stream] ?? []), ...(latencyMs > 0 ? [latency] : [])];
    const node = await startBenchNode({ profile: 'dense', heights, faults });
    const results = new Map<number, Result[]>(holdsMs.map((holdMs) => [holdMs, []]));
    for (let round = 0; round < rounds; round += 1) {
      const order = round % 2 === 0 ? holdsMs : holdsMs.toReversed();
      for (const holdMs of order)
        results.get(holdMs)?.push(await measure(node.address, programs.get(holdMs) ?? ''));
    }
    node.close();
    const speeds = (holdMs: number): number[] =>
      (results.get(holdMs) ?? []).map(({ heightsPerSecond }) => heightsPerSecond);
    for (const holdMs of holdsMs) {
      const middle = (pick: (result: Result) => number): string =>
        digits(median((results.get(holdMs) ?? []).map(pick)));
      rows.push([
        `${stream}, ${latencyMs} ms`,
        `${holdMs} ms`,
        middle((result) => result.heightsPerSecond),
        digits(ratioOf(speeds(holdMs), speeds(holdsMs[0] ?? 0))),
        middle((result) => result.requests),
        middle((result) => result.duplicates),
        middle((result) => result.heldBack),
      ]);
    }
    process.stderr.write(`${stream}, ${latencyMs} ms\n`);
  }
}
process.stdout.write(
  formatTable({
    title: `${heights} heights of 5 × 10, hybrid, medians of ${rounds} rounds`,
    columns: [
      'stream, node latency',
      'held back for',
      'heights/s',
      `÷ ${holdsMs[0] ?? 0} ms`,
      'requests/height',
      'duplicates/height',
      'heights held back/height',
    ],
    rows,
  }),
);
process.exit(0);
