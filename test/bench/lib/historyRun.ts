import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { silentLogger } from '../../../src/observability/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import { LevelIndexStore } from '../../../src/storage/index.js';
import { CHAIN_ID } from './blockEntries.js';
import { startLiveDaemon } from './liveDaemon.js';
import type { LiveDaemonOptions } from './liveDaemon.js';
import { scratch } from './processes.js';

export interface HistoryRunOptions {
  /** `host:port`. */
  readonly node: string;
  /** All at once. */
  readonly ranges: number;
  readonly heightsOfEach: number;
  /** The live range is this one block. */
  readonly liveHeight: number;
  readonly flags: readonly string[];
}

/** Fills in ranges of history below one live block, in a directory. Returns heights per second from the moment it listens. */
export async function fillHistory(options: HistoryRunOptions): Promise<number> {
  const { flags, heightsOfEach, liveHeight, node, ranges } = options;
  const dataDir = mkdtempSync(join(scratch, 'data-'));
  const daemon: LiveDaemonOptions = {
    ...{ node, dataDir, startHeight: liveHeight, stopHeight: liveHeight },
    mode: 'requester-only',
    flags: ['--backfill-parallel-ranges', String(ranges), ...flags],
  };
  await runToEnd(daemon);
  await planRanges(dataDir, ranges, heightsOfEach);
  const tookMs = await runToEnd(daemon);
  rmSync(dataDir, { recursive: true });
  return (1_000 * ranges * heightsOfEach) / tookMs;
}

/** Runs a daemon until all is there that it is to bring. Returns the milliseconds for which it listened. */
export async function runToEnd(options: LiveDaemonOptions): Promise<number> {
  const daemon = await startLiveDaemon(options);
  const startedAtMs = performance.now();
  const code = await daemon.exited;
  if (code !== 0) throw new Error(`the daemon ended with ${String(code)}`);
  return performance.now() - startedAtMs;
}

/** A plan for each: a range is never of two. */
async function planRanges(dataDir: string, count: number, heights: number): Promise<void> {
  const store = await LevelIndexStore.open(
    { path: join(dataDir, 'index'), chainId: CHAIN_ID, create: false },
    { logger: silentLogger, clock: systemClock },
  );
  const plans = Array.from({ length: count }, (_, index) => {
    const from = 1 + index * heights;
    return { id: index + 1, from, to: from + heights - 1, order: 'newest' as const, isPaused: false };
  });
  await store.ranges.change({ plans });
  await store.close();
}
