/**
 * History in ranges, on one machine and on several: how much faster many are than one, what they cost the live range, and
 * what the store on PostgreSQL makes of the database. Build first: it runs `dist/main.js`.
 */
import { once } from 'node:events';
import { readdirSync, rmSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { loadQueue } from '../../src/ranges/index.js';
import { silentLogger } from '../../src/observability/index.js';
import { systemClock } from '../../src/runtime/index.js';
import { seededRandom } from '../../src/runtime/random.js';
import { LevelIndexStore, loadPostgres, sharedRangesOf } from '../../src/storage/index.js';
import type { BlockEntry, IndexStore } from '../../src/storage/index.js';
import { asAdmin, ownServer, serverAt } from '../support/postgresServer.js';
import { BlockMaker, CHAIN_ID } from './lib/blocks.js';
import { runToEnd } from './lib/daemon.js';
import type { DaemonOptions } from './lib/daemon.js';
import { startDelayProxy } from './lib/delayProxy.js';
import { followFresh } from './lib/followFresh.js';
import { startBenchNode } from './lib/node.js';
import { freshDirectory, ROOT, startProcess } from './lib/processes.js';
import { initialise, openStore } from './lib/ProductWriter.js';
import { bench, digits } from './lib/report.js';
import type { Effort, Findings } from './lib/report.js';
import { interleave, median, percentile, ratioOf } from './lib/statistics.js';

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
/** `commitHeights`: as the indexer commits while it catches up. */
const COPY = { blocks: 4_000, quickBlocks: 1_000, commitHeights: 20 };
const WORKERS = {
  ...{ counts: [1, 2, 4] as const, rangesAtOnce: 2, roundTripMs: 250, window: 4, rangeHeights: 50 },
  ...{ planned: 8_000, seconds: 40, quickSeconds: 10 },
};
/** With fewer the simulated node, the bench and the database have none of their own. */
const PROCESSORS_FOR_FRESHNESS = 4;

const PROGRESS_POLL_MS = 50;
const dependencies = { logger: silentLogger, clock: systemClock };

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
    for (const measure of [farAway, whileLive, againstCopy, together]) {
      const found = await measure(effort);
      tables.push(...found.tables);
      figures.push(...found.figures);
    }
    return { tables, figures };
  },
);

async function farAway({ quick, rounds }: Effort): Promise<Findings> {
  const { concurrency, ranges, roundTripMs, window } = FAR;
  const heightsOfEach = quick ? FAR.quickHeights : FAR.heights;
  const liveHeight = 1 + ranges * heightsOfEach;
  const node = await startBenchNode({ profile, heights: liveHeight });
  const far = await startDelayProxy(node.address, roundTripMs);
  const flags = ['--backfill-window', String(window), '--requester-concurrency', String(concurrency)];
  /** Fills in ranges below one live block. Heights per second from the moment the daemon listens. */
  const run = (count: number) => async (): Promise<number> => {
    const dataDir = freshDirectory();
    const daemon: DaemonOptions = {
      ...{ node: far, dataDir, mode: 'requester-only', startHeight: liveHeight, stopHeight: liveHeight },
      flags: ['--backfill-parallel-ranges', String(count), ...flags],
    };
    await runToEnd(daemon);
    await planRanges(dataDir, count, heightsOfEach);
    const tookMs = await runToEnd(daemon);
    rmSync(dataDir, { recursive: true });
    return (1_000 * count * heightsOfEach) / tookMs;
  };
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

/** A plan for each: a range is never of two. */
async function planRanges(dataDir: string, count: number, heights: number): Promise<void> {
  const store = await LevelIndexStore.open(
    { path: join(dataDir, 'index'), chainId: CHAIN_ID, create: false },
    dependencies,
  );
  const plans = Array.from({ length: count }, (_, index) => {
    const from = 1 + index * heights;
    return { id: index + 1, from, to: from + heights - 1, order: 'newest' as const, isPaused: false };
  });
  await store.ranges.change({ plans });
  await store.close();
}

async function againstCopy({ quick, rounds }: Effort): Promise<Findings> {
  const blocks = new BlockMaker({ profile: 'dense' }).first(quick ? COPY.quickBlocks : COPY.blocks);
  const server = await startBenchPostgres();
  const { commitHeights } = COPY;
  const later = blocks.slice(commitHeights);
  const bytes: number[] = [];
  /** The first commit makes tables and partitions, and is nobody's to measure. */
  const begin = async (url: string) => {
    const { PostgresIndexStore } = await loadPostgres();
    const store = await PostgresIndexStore.open({ url, chainId: CHAIN_ID }, dependencies);
    await store.shared.lead();
    await initialise(store);
    await writeAll(store, blocks.slice(0, commitHeights));
    return store;
  };
  const store = async (): Promise<number> => {
    const writer = await begin(await server.database());
    const before = await writer.shared.sizeBytes();
    const rate = await rateOf(later.length, () => writeAll(writer, later));
    bytes.push(((await writer.shared.sizeBytes()) - before) / later.length);
    await writer.close();
    return rate;
  };
  // Once beforehand: for its rows, and so that nobody begins cold.
  const source = await server.database();
  const first = await begin(source);
  await writeAll(first, later);
  await first.close();
  const commits = await readCommits(source, later);
  const copy = async (): Promise<number> => {
    const url = await server.database();
    await (await begin(url)).close();
    const client = await connected(url);
    const rate = await rateOf(later.length, async () => {
      for (const commit of commits) {
        await client.query('BEGIN');
        for (const { table, rows } of commit)
          await Copy.run(client, `COPY flow_store.${table} FROM STDIN (FORMAT binary)`, rows);
        await client.query('COMMIT');
      }
    });
    await client.end();
    return rate;
  };
  const rates = await interleave({ store, copy }, { rounds });
  await server.close();
  const database = median(bytes);
  const directory = await bytesInDirectory(blocks);
  return {
    tables: [
      {
        title: `Into PostgreSQL, ${blocks.length} blocks of 5 × 10`,
        columns: ['writer', 'blocks/s'],
        rows: [
          ['the store', digits(median(rates.store))],
          ['nothing but COPY', digits(median(rates.copy))],
        ],
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
      { what: 'PostgreSQL store ÷ COPY alone', value: ratioOf(rates.store, rates.copy), atLeast: 0.7 },
      { what: 'bytes per block, PostgreSQL ÷ directory', value: database / directory },
    ],
  };
}

/** A server of the bench's own, that writes through to the disk as one that is to be trusted does. */
async function startBenchPostgres() {
  const machine = await ownServer({
    ...{ fsync: 'on', shared_buffers: '256MB', max_wal_size: '2GB', max_connections: '200' },
  });
  // It is in a group of its own, and would outlive a bench that fails.
  process.on('exit', () => {
    if (machine.pid !== undefined) process.kill(machine.pid, 'SIGQUIT');
  });
  return serverAt(machine.url, machine);
}

async function rateOf(blocks: number, write: () => Promise<void>): Promise<number> {
  const startedAtMs = performance.now();
  await write();
  return (1_000 * blocks) / (performance.now() - startedAtMs);
}

/** As the indexer does: while one commit is under way, the next one is prepared. */
async function writeAll(store: IndexStore, blocks: readonly BlockEntry[]): Promise<void> {
  let writing = Promise.resolve();
  for (let at = 0; at < blocks.length; at += COPY.commitHeights) {
    const batch = blocks.slice(at, at + COPY.commitHeights);
    for (const entry of batch) store.stage(entry);
    await writing;
    const latestIndexedHeight = batch.at(-1)?.block.height ?? store.latestIndexedHeight();
    writing = store.commit({ blocks: batch, latestIndexedHeight });
  }
  await writing;
}

/** Writes all blocks to a new directory. Returns the bytes of its files per block. */
async function bytesInDirectory(blocks: readonly BlockEntry[]): Promise<number> {
  const path = freshDirectory();
  const store = await openStore(path);
  await writeAll(store, blocks);
  await store.close();
  const bytes = readdirSync(path).reduce((sum, name) => sum + statSync(join(path, name)).size, 0);
  rmSync(path, { recursive: true });
  return bytes / blocks.length;
}

/** The data of blocks. */
const TABLES = ['block', 'body', 'collection', 'transaction', 'account_transaction'];

/**
 * What each commit wrote into each table: the rows that the store has written, as PostgreSQL itself gives them in its
 * binary form. Who sends them again makes no row, checks nothing, and keeps no state.
 */
async function readCommits(url: string, blocks: readonly BlockEntry[]) {
  const client = await connected(url);
  // A script is stored once, with the first transaction that has it.
  await client.query(
    `CREATE TEMP TABLE first AS SELECT script_hash AS hash, min(height) AS height
      FROM flow_store.transaction GROUP BY script_hash`,
  );
  const commits: { readonly table: string; readonly rows: Buffer }[][] = [];
  for (let at = 0; at < blocks.length; at += COPY.commitHeights) {
    const from = blocks[at]?.block.height ?? 0;
    const within = `height BETWEEN ${from} AND ${from + COPY.commitHeights - 1}`;
    const queries = TABLES.map(
      (table) => [table, `SELECT * FROM flow_store.${table} WHERE ${within}`] as const,
    );
    const scripts = `SELECT script.* FROM flow_store.script JOIN first USING (hash) WHERE ${within} ORDER BY hash`;
    const commit = [];
    for (const [table, query] of [...queries, ['script', scripts] as const])
      commit.push({ table, rows: await Copy.run(client, `COPY (${query}) TO STDOUT (FORMAT binary)`) });
    commits.push(commit);
  }
  await client.end();
  return commits;
}

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, options: '-c synchronous_commit=on' });
  await client.connect();
  return client;
}

const DATA = 'd'.charCodeAt(0);
const DONE = 'c'.charCodeAt(0);
/** Of each message: its kind, then its length, which counts itself. */
const [KIND_BYTES, LENGTH_BYTES] = [1, 4];

/** A COPY in either direction. What comes out is ready to be sent in: one message with the rows, and the one that ends them. */
class Copy extends pg.Query {
  readonly #chunks: Uint8Array[] = [];

  static run(client: pg.Client, text: string, rows?: Buffer): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const copy: Copy = new Copy(text, (error) => (error ? reject(error) : resolve(copy.#received())));
      // Statement and rows leave together: the server reads them in this order, and no round trip is in between.
      copy.submit = (connection) => {
        connection.query(text);
        if (rows !== undefined) connection.stream.write(rows);
      };
      client.query(copy);
    });
  }

  handleCopyInResponse(): void {
    // The rows have left already.
  }

  handleCopyData({ chunk }: { readonly chunk: Uint8Array }): void {
    this.#chunks.push(Buffer.from(chunk));
  }

  #received(): Buffer {
    const head = Buffer.from([DATA, 0, 0, 0, 0]);
    head.writeInt32BE(
      this.#chunks.reduce((sum, { length }) => sum + length, LENGTH_BYTES),
      KIND_BYTES,
    );
    return Buffer.concat([head, ...this.#chunks, Buffer.from([DONE, 0, 0, 0, LENGTH_BYTES])]);
  }
}

async function together({ quick, rounds }: Effort): Promise<Findings> {
  const { counts, planned, roundTripMs } = WORKERS;
  const liveHeight = planned + 1;
  const node = await startBenchNode({ profile, heights: liveHeight });
  const far = await startDelayProxy(node.address, roundTripMs);
  const server = await startBenchPostgres();
  const seconds = quick ? WORKERS.quickSeconds : WORKERS.seconds;
  const run = (workers: number) => async (): Promise<number> =>
    fillTogether({ node: far, url: await server.database(), workers, liveHeight, seconds });
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

interface WorkerRun {
  /** `host:port`. */
  readonly node: string;
  /** Of a new database. */
  readonly url: string;
  readonly workers: number;
  /** The live range is this one block; everything below is planned. */
  readonly liveHeight: number;
  readonly seconds: number;
}

/**
 * Has so many worker processes fill in history in one database. Returns the heights per second that became durable in all,
 * over some seconds that begin when every worker has all the ranges that it takes at once.
 */
async function fillTogether(run: WorkerRun): Promise<number> {
  const { liveHeight, node, seconds, url, workers } = run;
  await runToEnd({
    ...{ node, mode: 'requester-only', dataDir: freshDirectory() },
    ...{ startHeight: liveHeight, stopHeight: liveHeight, flags: ['--store', url] },
  });
  await planBelow(run);
  const running = Array.from({ length: workers }, () => startWorker(run));
  const progress = async (): Promise<Progress> => (await asAdmin(url, PROGRESS)).rows[0] as Progress;
  while ((await progress()).begun < workers * WORKERS.rangesAtOnce) await sleep(PROGRESS_POLL_MS);
  const before = await progress();
  const startedAtMs = performance.now();
  await sleep(1_000 * seconds);
  const after = await progress();
  const tookMs = performance.now() - startedAtMs;
  if (after.planned === 0) throw new Error('everything was filled in before the time was up');
  for (const worker of running) {
    const exited = once(worker, 'exit');
    worker.kill('SIGTERM');
    await exited;
  }
  return (1_000 * (after.heights - before.heights)) / tookMs;
}

interface Progress {
  /** Durable. */
  readonly heights: number;
  /** Open ranges of which something is durable. */
  readonly begun: number;
  readonly planned: number;
}

const PROGRESS = `SELECT
  ((SELECT coalesce(sum(to_height - from_height + 1), 0) FROM flow_store.coverage) +
   (SELECT coalesce(sum(next_height - from_height), 0) FROM flow_store.open_range))::integer AS heights,
  (SELECT count(*) FROM flow_store.open_range WHERE next_height > from_height)::integer AS begun,
  (SELECT count(*) FROM flow_store.plan)::integer AS planned`;

/** As `backfill plan` does, but for smaller ranges: so that many are taken, filled and published in little time. */
async function planBelow({ liveHeight, url }: WorkerRun): Promise<void> {
  const { PostgresIndexStore } = await loadPostgres();
  const { SharedQueue } = await loadQueue();
  const parts = { ...dependencies, random: seededRandom(1) };
  const store = await PostgresIndexStore.open({ url, chainId: CHAIN_ID, isReadOnly: true }, parts);
  const queue = await SharedQueue.open({ url, roles: [] }, parts);
  const book = sharedRangesOf(store);
  if (book === undefined) throw new Error('the store is not shared');
  const chain = { borders: () => [], served: () => [{ from: 0, to: liveHeight }] };
  const source = queue.source({ maxRangeHeights: WORKERS.rangeHeights }, { book, chain });
  await source.plan({ from: 1, to: liveHeight - 1, order: 'newest' });
  await queue.close();
  await store.close();
}

function startWorker({ node, url }: WorkerRun) {
  const dataDir = freshDirectory();
  const child = startProcess([
    ...[resolve(ROOT, 'dist/main.js'), 'start', '--network', 'devnet', '--access-node', node],
    ...['--store', url, '--data-dir', dataDir, '--roles', 'backfill', '--no-edi', '--metrics-port', '0'],
    ...['--backfill-parallel-ranges', String(WORKERS.rangesAtOnce)],
    ...['--backfill-window', String(WORKERS.window)],
    ...['--log-format', 'json'],
  ]);
  child.stdout?.resume();
  return child;
}
