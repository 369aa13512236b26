import { MAX_HEIGHT, readHeightsToFill } from '../../../config/index.js';
import type { DaemonConfig, HeightsToFill } from '../../../config/index.js';
import { WorkSignal } from '../../../jobqueue/index.js';
import { common, countHeights, localWorkSource, rangeRunner } from '../../../ranges/index.js';
import type { BackfillState, FillOrder, RunningRange, SharedQueue } from '../../../ranges/index.js';
import { messageOf, OperatorError, runTogether, sleep } from '../../../runtime/index.js';
import { rangesInWords, sharedRangesOf } from '../../../storage/index.js';
import type { BackfillPlan, FoundDamage, HeightRange } from '../../../storage/index.js';
import { NotKnownYet } from './NotKnownYet.js';
import { heightsOf } from './plans.js';
import { startRangeLine, type HistoryLine, type HistoryParts } from './rangeLine.js';

/**
 * How often the nodes are asked again while no node serves some planned heights. None may ever do so, so this must be cheap:
 * each time costs every node one handshake.
 */
const UNSERVED_ASKED_EVERY_MS = 30_000;
/** How often the configured plan is retried while no node reports where it begins; costs every node one handshake. */
const PLANNED_EVERY_MS = 5_000;

export type Backfill = ReturnType<typeof fillHistory>;

/**
 * Fills in history below the live range, while that follows the head. `maxRangeHeights`: the most heights of one range; default:
 * as many as the store takes.
 */
export function fillHistory(
  {
    config,
    maxRangeHeights,
  }: { readonly config: DaemonConfig; readonly maxRangeHeights?: number | undefined },
  parts: HistoryParts & {
    /** Shared with other processes. Default: no other process has the store. */
    readonly queue?: SharedQueue | undefined;
    /** Called when more history can be read, and when the plan of the configuration has been made. Must not throw. */
    readonly onPublished: () => void;
    /** Called when a range meets damage beside it. Must not throw. */
    readonly onDamage: (damage: FoundDamage) => void;
  },
) {
  const { clock, logger, metrics, network, onDamage, onPublished, queue, random, store } = parts;
  const begun = new WorkSignal();
  /** The damaged heights of running ranges, by first height. */
  const healing = new Map<number, readonly HeightRange[]>();
  let filled = 0;
  /** The plan of the configuration has been made, or was refused. */
  let isPlanned = false;
  const chain = {
    borders: () => network.sporkRoots(),
    served: () =>
      network
        .servedRanges()
        .map(({ lowest: from = 0, endExclusive = MAX_HEIGHT + 1 }) => ({ from, to: endExclusive - 1 })),
  };
  const book = sharedRangesOf(store);
  const source =
    queue !== undefined && book !== undefined
      ? queue.source({ maxRangeHeights }, { book, chain })
      : localWorkSource({ maxRangeHeights }, { store, chain, clock, random, logger });
  const runner = rangeRunner<HistoryLine>({
    parallelRanges: config.backfill.parallelRanges,
    source,
    onPublished: (range) => {
      healed(range);
      onPublished();
    },
    onDamage,
    startLine: (job) => {
      const damaged = common([job.range], store.healing());
      if (damaged.length > 0) healing.set(job.range.from, damaged);
      return startRangeLine(config, parts, job, {
        isUrgent: damaged.length > 0,
        onGrown: (heights) => (filled += heights),
      });
    },
    logger,
  });

  /** True while something is planned and not paused. */
  const hasWork = (): boolean => {
    const isWanted = config.backfill.plan !== undefined && !isPlanned;
    return isWanted || store.ranges.plans().some(({ isPaused }) => !isPaused);
  };

  /** Expected errors: OperatorError `usage`. */
  const plan = async (wanted: HeightsToFill, order: FillOrder): Promise<BackfillPlan> =>
    source.plan({ ...heightsOf(wanted, store, parts), order });

  /** Plans what the configuration asks for, once: after a restart it is already planned, or filled in. */
  const planAsConfigured = async (isFirstTry: boolean): Promise<void> => {
    const heights = readHeightsToFill(config.backfill.plan ?? '');
    try {
      if (heights !== undefined) await plan(heights, 'newest');
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      const isFinal = !(error instanceof NotKnownYet);
      const how = isFinal ? 'nothing is planned by backfill.plan' : 'backfill.plan waits for a node';
      if (isFirstTry || isFinal) logger[isFinal ? 'info' : 'warn']({ why: messageOf(error) }, how);
      if (!isFinal) return;
    }
    isPlanned = true;
    onPublished();
  };

  /** Asks the nodes again while none reports where the configured plan begins, or serves some planned heights. */
  const askNodes = async (signal: AbortSignal): Promise<void> => {
    for (let isFirstTry = true; ; isFirstTry = false) {
      if (!isPlanned) await planAsConfigured(isFirstTry);
      if (!isPlanned || (hasWork() && source.status().unserved.length > 0)) network.askAgain();
      await sleep(clock, isPlanned ? UNSERVED_ASKED_EVERY_MS : PLANNED_EVERY_MS, signal);
    }
  };

  /** Fills in the plans until `signal` aborts; then closes everything. Rejects as the line, or with the signal's abort reason. */
  const run = async (signal: AbortSignal): Promise<void> => {
    while (store.latestBlock() === undefined) await begun.wait(signal);
    await runTogether(signal, [askNodes, (ended) => runner.run(ended)]);
  };

  const healed = ({ from }: HeightRange): void => {
    const heights = healing.get(from);
    if (heights === undefined) return;
    healing.delete(from);
    metrics.healedHeights.inc(countHeights(heights));
    logger.info({ heights: rangesInWords(heights) }, 'damaged heights are whole again');
  };

  return {
    source,
    plan,
    run,
    hasWork,
    /** Heights that became durable since the start. */
    filled: (): number => filled,
    state: (): BackfillState => source.status(),
    running: (): readonly RunningRange<HistoryLine>[] => runner.running(),
    /** Call it when the live range has grown. */
    notify: (): void => {
      begun.notify();
      // Only its first block matters: plans lie below it.
      if (store.ranges.plans().length > 0 && 'notify' in source) source.notify();
    },
  };
}
