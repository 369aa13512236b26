import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadQueue } from '../../../src/ranges/index.js';
import { silentLogger } from '../../../src/observability/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import { seededRandom } from '../../../src/runtime/random.js';
import { loadPostgres, sharedRangesOf } from '../../../src/storage/index.js';
import { asAdmin } from '../../support/postgresServer.js';
import { CHAIN_ID } from './blockEntries.js';
import { runToEnd } from './historyRun.js';
import { ROOT, scratch, startProcess } from './processes.js';

export interface WorkerRunOptions {
  /** `host:port`. */
  readonly node: string;
  /** Of a new database. */
  readonly url: string;
  readonly workers: number;
  /** Of each worker. */
  readonly rangesAtOnce: number;
  readonly window: number;
  readonly rangeHeights: number;
  /** The live range is this one block; everything below is planned. */
  readonly liveHeight: number;
  readonly seconds: number;
}

const POLL_MS = 50;

/**
 * Has so many worker processes fill in history in one database. Returns the heights per second that became durable in all,
 * over some seconds that begin when every worker has all the ranges that it takes at once.
 */
export async function fillTogether(options: WorkerRunOptions): Promise<number> {
  const { liveHeight, node, rangesAtOnce, seconds, url, workers } = options;
  await runToEnd({
    ...{ node, mode: 'requester-only', dataDir: mkdtempSync(join(scratch, 'data-')) },
    ...{ startHeight: liveHeight, stopHeight: liveHeight, flags: ['--store', url] },
  });
  await planBelow(options);
  const running = Array.from({ length: workers }, () => startWorker(options));
  const progress = async (): Promise<Progress> => {
    const { rows } = await asAdmin(url, PROGRESS);
    return rows[0] as Progress;
  };
  while ((await progress()).begun < workers * rangesAtOnce) await sleep(POLL_MS);
  const before = await progress();
  const startedAtMs = performance.now();
  await sleep(1_000 * seconds);
  const after = await progress();
  const tookMs = performance.now() - startedAtMs;
  if (after.planned === 0) throw new Error('everything was filled in before the time was up');
  for (const worker of running) await end(worker);
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
async function planBelow({ liveHeight, rangeHeights, url }: WorkerRunOptions): Promise<void> {
  const { PostgresIndexStore } = await loadPostgres();
  const { SharedQueue } = await loadQueue();
  const parts = { clock: systemClock, random: seededRandom(1), logger: silentLogger };
  const store = await PostgresIndexStore.open({ url, chainId: CHAIN_ID, isReadOnly: true }, parts);
  const queue = await SharedQueue.open({ url, roles: [] }, parts);
  const book = sharedRangesOf(store);
  if (book === undefined) throw new Error('the store is not shared');
  const chain = { borders: () => [], served: () => [{ from: 0, to: liveHeight }] };
  const source = queue.source({ maxRangeHeights: rangeHeights }, { book, chain });
  await source.plan({ from: 1, to: liveHeight - 1, order: 'newest' });
  await queue.close();
  await store.close();
}

function startWorker({ node, rangesAtOnce, url, window }: WorkerRunOptions): ChildProcess {
  const dataDir = mkdtempSync(join(scratch, 'data-'));
  const child = startProcess([
    ...[resolve(ROOT, 'dist/main.js'), 'start', '--network', 'devnet', '--access-node', node],
    ...['--store', url, '--data-dir', dataDir, '--roles', 'backfill', '--no-edi', '--metrics-port', '0'],
    ...['--backfill-parallel-ranges', String(rangesAtOnce), '--backfill-window', String(window)],
    ...['--log-format', 'json'],
  ]);
  child.stdout?.resume();
  return child;
}

async function end(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}
