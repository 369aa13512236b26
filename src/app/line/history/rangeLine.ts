import { Window } from '../../../collections/index.js';
import type { DaemonConfig } from '../../../config/index.js';
import type { RootParent } from '../../../finality/index.js';
import { measureProgress, type Logger } from '../../../observability/index.js';
import { common, countHeights } from '../../../ranges/index.js';
import type { RangeJob, RangeLine, RangeOutcome } from '../../../ranges/index.js';
import { every, isAbort, type Clock } from '../../../runtime/index.js';
import { rangesInWords, type HeightRange, type IndexStore } from '../../../storage/index.js';
import type { HistoryPace } from './paceHistory.js';
import { buildLine, type IndexingLine, type SharedParts } from '../buildLine.js';

/** How often the nodes' blocks are compared with those indexed next to the range. */
const LOOK_EVERY_MS = 1_000;
/** A block that has not linked for this long, with any node, fails the run. */
const MISFIT_FAILS_AFTER_MS = 5_000;
/** A range gets at least this many bytes in flight. */
const MIN_IN_FLIGHT_BYTES = 1024 ** 2;

/** A range of history that is being filled. */
export interface HistoryLine extends RangeLine {
  readonly indexing: IndexingLine;
  readonly meter: ReturnType<typeof measureProgress>;
  /** Milliseconds since it grew last, or began. */
  readonly stillMs: () => number;
}

/** The parts of the daemon that ranges need. */
export interface HistoryParts extends SharedParts {
  readonly store: IndexStore;
  readonly pace: HistoryPace;
}

/**
 * Fills one range with the same line that follows the head: bounded by the end of the range, with its own window and byte
 * budget, and with lower priority than the live range at every node, unless readers miss damaged heights of it. `onGrown`: called
 * with the number of heights that became durable. Expected errors: `StorageError`.
 */
export async function startRangeLine(
  config: DaemonConfig,
  parts: HistoryParts,
  { range, store }: RangeJob,
  onGrown: (heights: number) => void,
): Promise<HistoryLine> {
  const { clock, listener, network } = parts;
  const damaged = common([range], parts.store.healing());
  const isUrgent = damaged.length > 0;
  const isRoot = (height: number): boolean => network.sporkAt(height)?.rootHeight === height;
  const rootHeight = range.to + 1;
  const above = await parts.store.blockByHeight(rootHeight);
  // A spork root may name another parent, which is in the table if the spork is.
  const isInTable = parts.sporks.some((spork) => spork.rootHeight === rootHeight && spork.rootParentId);
  // The block above names the last block of the range: no other is accepted.
  const rootParents: readonly RootParent[] =
    above === undefined || isInTable ? [] : [{ rootHeight, rootParentId: above.block.parentId }];
  const neighbours = {
    below: range.from > 0 && !isRoot(range.from) && store.latestBlock() === undefined,
    above: above === undefined && !isInTable && !isRoot(rootHeight),
  };
  let settle = (_outcome: RangeOutcome): void => undefined;
  let rejectOutcome = (_error: unknown): void => undefined;
  const outcome = new Promise<RangeOutcome>((...ends) => ([settle, rejectOutcome] = ends));
  const fail = (error: unknown): void => {
    if (!isAbort(error)) rejectOutcome(error);
  };
  const share = config.maxInFlightBytes / config.backfill.parallelRanges;
  const limitBytes = Math.max(MIN_IN_FLIGHT_BYTES, Math.floor(share));
  const window = new Window(
    { heights: config.backfill.window, stopHeight: range.to, limitBytes },
    {
      store,
      // The chain is past the range, whatever head is reported.
      finalizedHeight: () => Math.max(listener.finalized.height ?? 0, parts.store.latestIndexedHeight()),
      ...(isUrgent ? {} : { share: () => parts.pace.share() }),
    },
  );
  const latestIndexedHeight = (): number => store.latestIndexedHeight();
  const meter = measureProgress({ clock, source: { latestIndexedHeight, headHeight: () => range.to } });
  let latest = latestIndexedHeight();
  let grewAtMs = clock.monotonic();
  window.onMoved(() => {
    const before = latest;
    latest = latestIndexedHeight();
    if (latest > before) {
      grewAtMs = clock.monotonic();
      onGrown(latest - before);
    }
    if (latest !== range.to) return;
    if (isUrgent && latest > before) {
      parts.metrics.healedHeights.inc(countHeights(damaged));
      parts.logger.info({ heights: rangesInWords(damaged) }, 'damaged heights are whole again');
    }
    settle({ kind: 'published' });
  });
  // The range as a whole reports what holds it up; the log messages of its parts are meant for the live range.
  const quiet = (fields: object, message: string): void =>
    parts.logger.debug({ from: range.from, to: range.to, ...fields }, message);
  const logger: Logger = { debug: quiet, info: quiet, warn: quiet, error: quiet };
  const indexing = buildLine(
    config,
    { ...parts, store, window, fail, logger },
    { isHistory: true, isUrgent, rootParents, neighbours },
  );
  const stopPacing = parts.pace.onMore(() => window.moved());
  const failed = (reason: string): void => settle({ kind: 'failed', reason });
  void indexing.outdated.then(failed);
  const misfits = every(clock, LOOK_EVERY_MS, () => {
    const misfit = misfitOf(indexing, range, clock);
    if (misfit !== undefined) failed(misfit);
  });
  const close = async (): Promise<void> => {
    misfits.cancel();
    stopPacing();
    await indexing.close();
  };
  const stillMs = (): number => clock.monotonic() - grewAtMs;
  return { indexing, meter, outcome, stillMs, close };
}

/** Why the nodes have no blocks that link to those next to the range; `undefined`: they may have. */
function misfitOf({ blocks }: IndexingLine, { to }: HeightRange, clock: Clock): string | undefined {
  const disputed = blocks.disputedBelow();
  const trouble = blocks.chainTrouble() ?? disputed;
  if (trouble === undefined || clock.monotonic() - trouble.sinceMs < MISFIT_FAILS_AFTER_MS) return undefined;
  const { height } = trouble;
  // The range above may be indexed by the retry, and shows which of them is right.
  if (trouble === disputed) return `the access nodes give different blocks ${height}, below the range`;
  const next = height === to ? height + 1 : height - 1;
  return `no access node has a block ${height} that links to block ${next}, beside the range`;
}
