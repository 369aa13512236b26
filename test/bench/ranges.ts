/**
 * History in ranges, on one machine and on several: how much faster many are than one, what they cost the live range, and
 * what the store on PostgreSQL makes of the database. Build first: it runs `dist/main.js`.
 *
 *     --part LIST      some of it: far, live, copy, workers; separated by commas
 */
import { availableParallelism } from 'node:os';
import { startDelayProxy } from './delayProxy.js';
import { startBenchPostgres } from './lib/benchPostgres.js';
import { BlockMaker } from './lib/blockEntries.js';
import { CopyOnlyWriter, readCommits } from './lib/copyOnly.js';
import type { CommitRows } from './lib/copyOnly.js';
import { followFresh } from './lib/freshBlocks.js';
import { fillHistory } from './lib/historyRun.js';
import { startBenchNode } from './lib/node.js';
import { bench, digits } from './lib/report.js';
import type { Effort, Findings } from './lib/report.js';
import { interleave, median, percentile, ratioOf } from './lib/statistics.js';
import { bytesInDirectory, copyAll, laterCommits, loadDatabase, prepareDatabase } from './lib/storeLoad.js';
import type { WriteCost } from './lib/storeLoad.js';
import { fillTogether } from './lib/workerRun.js';
import { scriptOptions } from '../support/scriptOptions.js';

/** Small, so that waiting is the limit where it is to be, and full speed many heights. */
const profile = {
  base: 'dense',
  collectionsPerBlock: { min: 1, max: 1 },
  transactionsPerCollection: { min: 2, max: 2 },
} as const;

const FAR = {
  ...{ ranges: 8, roundTripMs: 100, window: 8, concurrency: 128 },
  ...{ heights: 250, quickHeights: 120 },
};
/** More history than can be filled in while the tip is watched. */
const LIVE = {
  ...{ history: 120_000, warmUpHeights: 20, heights: 120 },
  ...{ quickHistory: 25_000, quickWarmUpHeights: 6, quickHeights: 24 },
};
const COPY = { blocks: 4_000, quickBlocks: 1_000 };
const WORKERS = {
  ...{ counts: [1, 2, 4] as const, rangesAtOnce: 2, roundTripMs: 250, window: 4, rangeHeights: 50 },
  ...{ planned: 8_000, seconds: 40, quickSeconds: 10 },
};
/** With fewer the simulated node, the bench and the database have none of their own. */
const PROCESSORS_FOR_FRESHNESS = 4;

const PARTS: Readonly<Record<string, (effort: Effort) => Promise<Findings>>> = {
  far: farAway,
  live: whileLive,
  copy: againstCopy,
  workers: together,
};

const { values: args } = scriptOptions({
  options: { part: { type: 'string', default: Object.keys(PARTS).join() } },
  strict: false,
});

await bench(
  {
    title: 'Ranges of history',
    about:
      'Blocks of 1 × 2 transactions, unless it says otherwise. ' +
      `Far away: ${FAR.ranges} ranges at once and one, each with a window of ${FAR.window} heights, below one live block; ` +
      `everything between daemon and node travels ${FAR.roundTripMs} ms there and back, and collections are asked for one by ` +
      `one, up to ${FAR.concurrency} at once. Live: a block every 500 ms, whose collections come later, as in "At the tip"; ` +
      'with nothing else to do, and with history filled in at full speed (default flags), all of it from the same node. ' +
      'COPY: blocks of 5 × 10 transactions, 20 per commit, through the store, and the very rows that it has written by nothing ' +
      'but COPY in binary form, made beforehand; both durable with every commit, indexes and all. ' +
      `Workers: processes with the role backfill, ${WORKERS.rangesAtOnce} ranges of ${WORKERS.rangeHeights} heights at once ` +
      `each with a window of ${WORKERS.window}, on one database, nodes ${WORKERS.roundTripMs} ms away; heights that ` +
      'became durable. Bytes: files of the directory; tables and indexes of the database.',
  },
  async (effort) => {
    const tables: Findings['tables'][number][] = [];
    const figures: Findings['figures'][number][] = [];
    for (const name of String(args.part).split(',')) {
      const measure = PARTS[name];
      if (measure === undefined) throw new Error(`there is no part ${name}`);
      const found = await measure(effort);
      process.stderr.write(`${name}: ${found.figures.map(({ value }) => digits(value)).join(', ')}\n`);
      tables.push(...found.tables);
      figures.push(...found.figures);
    }
    return { tables, figures };
  },
);
process.exit(0);

async function farAway({ quick, rounds }: Effort): Promise<Findings> {
  const { concurrency, ranges, roundTripMs, window } = FAR;
  const heightsOfEach = quick ? FAR.quickHeights : FAR.heights;
  const liveHeight = 1 + ranges * heightsOfEach;
  const node = await startBenchNode({ profile, heights: liveHeight });
  const far = await startDelayProxy(node.address, roundTripMs);
  const flags = ['--backfill-window', String(window), '--requester-concurrency', String(concurrency)];
  const run = (count: number) => (): Promise<number> =>
    fillHistory({ node: far, ranges: count, heightsOfEach, liveHeight, flags });
  const rates = await interleave({ one: run(1), all: run(ranges) }, { rounds });
  node.close();
  return {
    tables: [
      {
        title: `Heights per second from a node ${roundTripMs} ms away`,
        columns: ['ranges', 'heights of each', 'heights/s'],
        rows: [
          ['1', heightsOfEach, digits(median(rates.one))],
          [String(ranges), heightsOfEach, digits(median(rates.all))],
        ],
      },
    ],
    figures: [
      {
        what: `${ranges} ranges ÷ one, ${roundTripMs} ms away`,
        value: ratioOf(rates.all, rates.one),
        atLeast: 5,
      },
    ],
  };
}

async function whileLive({ quick }: Effort): Promise<Findings> {
  const history = quick ? LIVE.quickHistory : LIVE.history;
  const common = {
    ...{ profile, history, startHeight: history, isHistoryMade: true },
    warmUpHeights: quick ? LIVE.quickWarmUpHeights : LIVE.warmUpHeights,
    heights: quick ? LIVE.quickHeights : LIVE.heights,
  };
  const alone = await followFresh({ ...common, isHistoryMade: false });
  const filling = await followFresh({ ...common, flags: ['--backfill', '1'] });
  if (filling.missingHeights === 0) throw new Error('history was filled in before the last height');
  const late = (times: readonly number[], share: number): string => digits(percentile(times, share));
  const rows = Object.entries({ alone, 'history is filled in': filling }).map(([name, found]) => [
    ...[name, late(found.lateMs, 0.5), late(found.lateMs, 0.9), found.mostLagHeights],
    digits(found.filledPerSecond),
  ]);
  const isRoomy = availableParallelism() >= PROCESSORS_FOR_FRESHNESS;
  return {
    tables: [
      {
        title: `The live range, ${common.heights} heights`,
        columns: ['beside it', 'late p50 ms', 'late p90 ms', 'heights behind, most', 'history, heights/s'],
        rows,
      },
    ],
    figures: [
      { what: 'heights behind while filling in', value: filling.mostLagHeights, atMost: 2 },
      {
        what: 'late p50, live only ÷ while filling in',
        value: percentile(alone.lateMs, 0.5) / percentile(filling.lateMs, 0.5),
        ...(isRoomy ? { atLeast: 0.95 } : {}),
      },
    ],
  };
}

async function againstCopy({ quick, rounds }: Effort): Promise<Findings> {
  const blocks = new BlockMaker({ profile: 'dense' }).first(quick ? COPY.quickBlocks : COPY.blocks);
  const server = await startBenchPostgres();
  const bytes: number[] = [];
  const store = async (): Promise<WriteCost> => {
    const { bytesPerBlock, ...cost } = await loadDatabase(server, await server.database(), blocks);
    bytes.push(bytesPerBlock);
    return cost;
  };
  // Once beforehand: for its rows, and so that nobody begins cold.
  const source = await server.database();
  await loadDatabase(server, source, blocks);
  const commits: readonly CommitRows[] = await readCommits(source, laterCommits(blocks));
  const copy = async (): Promise<WriteCost> => {
    const url = await server.database();
    await prepareDatabase(url, blocks);
    const writer = await CopyOnlyWriter.open(url);
    const cost = await copyAll(server, writer, commits);
    await writer.close();
    return cost;
  };
  const costs = await interleave({ store, copy }, { rounds });
  await server.close();
  const database = median(bytes);
  const directory = await bytesInDirectory(blocks);
  const of = (found: readonly WriteCost[], what: keyof WriteCost): number =>
    median(found.map((cost) => cost[what]));
  const ratio = (what: keyof WriteCost): number =>
    ratioOf(
      costs.copy.map((cost) => cost[what]),
      costs.store.map((cost) => cost[what]),
    );
  return {
    tables: [
      {
        title: `Into PostgreSQL, ${blocks.length} blocks of 5 × 10; processors in ms per block`,
        columns: ['writer', 'blocks/s', 'server', 'writer itself'],
        rows: Object.entries({ 'the store': costs.store, 'nothing but COPY': costs.copy }).map(
          ([name, found]) => [
            ...[name, digits(1_000 / of(found, 'wallMs'))],
            ...[digits(of(found, 'serverMs')), digits(of(found, 'ownMs'))],
          ],
        ),
      },
      {
        title: 'Bytes per block of 5 × 10',
        columns: ['store', 'bytes'],
        rows: [
          ['a directory', digits(directory)],
          ['PostgreSQL', digits(database)],
        ],
      },
    ],
    figures: [
      { what: 'PostgreSQL store ÷ COPY alone', value: ratio('wallMs'), atLeast: 0.7 },
      { what: 'processors of the server, COPY alone ÷ PostgreSQL store', value: ratio('serverMs') },
      { what: 'bytes per block, PostgreSQL ÷ directory', value: database / directory },
    ],
  };
}

async function together({ quick, rounds }: Effort): Promise<Findings> {
  const { counts, planned, rangeHeights, rangesAtOnce, roundTripMs, window } = WORKERS;
  const liveHeight = planned + 1;
  const node = await startBenchNode({ profile, heights: liveHeight });
  const far = await startDelayProxy(node.address, roundTripMs);
  const server = await startBenchPostgres();
  const run = (workers: number) => async (): Promise<number> =>
    fillTogether({
      ...{ node: far, url: await server.database(), workers, rangesAtOnce, window, rangeHeights, liveHeight },
      seconds: quick ? WORKERS.quickSeconds : WORKERS.seconds,
    });
  const rates = await interleave({ one: run(1), two: run(2), four: run(4) }, { rounds });
  await server.close();
  node.close();
  const byCount = [rates.one, rates.two, rates.four];
  return {
    tables: [
      {
        title: `Workers on one database, nodes ${roundTripMs} ms away`,
        columns: ['workers', 'heights/s'],
        rows: counts.map((count, at) => [String(count), digits(median(byCount[at] ?? []))]),
      },
    ],
    figures: counts.slice(1).map((count, at) => ({
      what: `${count} workers ÷ one, ${count} times`,
      value: ratioOf(byCount[at + 1] ?? [], rates.one) / count,
      atLeast: 0.85,
    })),
  };
}
