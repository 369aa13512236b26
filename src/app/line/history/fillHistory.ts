import { MAX_HEIGHT, type DaemonConfig } from '../../../config/index.js';
import { WorkSignal } from '../../../jobqueue/index.js';
import { rangeRunner, type BackfillState, type RunningRange } from '../../../ranges/index.js';
import { OperatorError, runTogether, sleep } from '../../../runtime/index.js';
import type { FoundDamage } from '../../../storage/index.js';
import { obeyBackfill, workSourceOf } from './plans.js';
import { startRangeLine, type HistoryLine, type HistoryParts } from './rangeLine.js';

/**
 * How often the nodes are asked again while no node serves some planned heights. None may ever do so, so this must be cheap:
 * each time costs every node one handshake.
 */
const UNSERVED_ASKED_EVERY_MS = 30_000;
/** How often the configured plan is retried while no node reports where it begins; costs every node one handshake. */
const PLANNED_EVERY_MS = 5_000;

export type Backfill = ReturnType<typeof fillHistory>;

/** Fills in history below the live range, while that follows the head. */
export function fillHistory(
  config: DaemonConfig,
  parts: HistoryParts &
    Pick<Parameters<typeof workSourceOf>[0], 'queue' | 'maxRangeHeights'> & {
      /** Called when more history can be read, and when the plan of the configuration has been made. Must not throw. */
      readonly onPublished: () => void;
      /** Called when a range meets damage beside it. Must not throw. */
      readonly onDamage: (damage: FoundDamage) => void;
    },
) {
  const { clock, logger, network, onPublished, store } = parts;
  const begun = new WorkSignal();
  let filled = 0;
  /** The plan of the configuration has been made, or was refused. */
  let isPlanned = config.backfill.plan === undefined;
  const source = workSourceOf(parts, {
    borders: () => network.sporkRoots(),
    served: () =>
      network
        .servedRanges()
        .map(({ lowest: from = 0, endExclusive = MAX_HEIGHT + 1 }) => ({ from, to: endExclusive - 1 })),
  });
  const runner = rangeRunner<HistoryLine>({
    ...parts,
    parallelRanges: config.backfill.parallelRanges,
    source,
    startLine: (job) => startRangeLine(config, parts, job, (heights) => (filled += heights)),
  });

  /** True while something is planned and not paused. */
  const hasWork = (): boolean => !isPlanned || store.ranges.plans().some(({ isPaused }) => !isPaused);

  /** Plans what the configuration asks for, once: after a restart it is already planned, or filled in. */
  const planAsConfigured = async (isFirstTry: boolean): Promise<void> => {
    try {
      await obeyBackfill({ do: 'plan', heights: config.backfill.plan, order: 'newest' }, source, parts);
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      const why = error.message;
      if (error.exit === 'unavailable') {
        if (isFirstTry) logger.warn({ why }, 'backfill.plan waits for a node');
        return;
      }
      logger.info({ why }, 'nothing is planned by backfill.plan');
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

  return {
    source,
    /** Fills in the plans until `signal` aborts; then closes everything. Rejects as the line, or with the signal's abort reason. */
    run: async (signal: AbortSignal): Promise<void> => {
      while (store.latestBlock() === undefined) await begun.wait(signal);
      await runTogether(signal, [askNodes, (ended) => runner.run(ended)]);
    },
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
