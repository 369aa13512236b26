import type { Logger } from '../../observability/index.js';
import { sleep, type Clock } from '../../runtime/index.js';
import type { AccountIndex } from '../port/AccountIndex.js';
import type { WriteRoom } from '../port/IndexStore.js';
import { isCorruption } from '../StorageError.js';

/** The largest share of time spent on building: after each step it rests four times as long. */
const BUILD_SHARE = 0.2;
/** A step with almost nothing in it takes almost no time. */
const MIN_REST_MS = 1;
/** Between two log lines. */
const REPORT_EVERY_MS = 10_000;

/** Builds the missing part of the account index from the store alone, newest first. */
export function accountIndexBuilder(dependencies: {
  readonly accounts: AccountIndex;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Default: there is always room. */
  readonly room?: WriteRoom | undefined;
}) {
  const { accounts, clock, logger, room } = dependencies;
  let isStopped = false;
  /** As `/status` shows it. `stopped`: a stored block is damaged, and the index cannot get past it. */
  const progress = () => {
    const { from: coveredFrom = null, missingHeights = null } = accounts.coverage() ?? {};
    const unfinished = isStopped ? 'stopped' : 'building';
    const state = missingHeights === null ? 'off' : missingHeights === 0 ? 'complete' : unfinished;
    return { state, coveredFrom, missingHeights } as const;
  };
  const isBuilding = (): boolean => progress().state === 'building';
  const report = (message: string): void => {
    const { coveredFrom, missingHeights } = progress();
    logger.info({ coveredFrom, missingHeights }, message);
  };
  /**
   * Resolves when the index is complete, or cannot be built further. Expected errors: `StorageError`, but not for damage,
   * which reads report as well; the signal's abort reason.
   */
  const run = async (signal: AbortSignal): Promise<void> => {
    // What was damaged may have been healed.
    isStopped = false;
    if (!isBuilding()) return;
    report('building the account index');
    let reportedAtMs = clock.monotonic();
    while (isBuilding()) {
      await room?.whenRoom(signal);
      const startedAtMs = clock.monotonic();
      await accounts.extend().catch((error: unknown) => {
        // Damage must not stop the daemon here: reads report it too.
        if (!isCorruption(error)) throw error;
        isStopped = true;
        logger.error({ kind: error.kind, error }, 'the account index cannot be built further');
      });
      const nowMs = clock.monotonic();
      if (nowMs - reportedAtMs >= REPORT_EVERY_MS) {
        reportedAtMs = nowMs;
        report('building the account index');
      }
      const restMs = (nowMs - startedAtMs) * (1 / BUILD_SHARE - 1);
      await sleep(clock, Math.max(MIN_REST_MS, restMs), signal);
    }
    if (progress().state === 'complete') report('the account index is complete');
  };
  return { progress, run };
}
