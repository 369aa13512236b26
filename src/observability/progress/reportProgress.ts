import { every, type Clock } from '../../runtime/index.js';
import type { Logger } from '../logs/Logger.js';
import type { LiveTerminal } from './liveTerminal.js';
import type { Progress } from './measureProgress.js';
import { formatDuration } from './format.js';
import { FOLLOWING_LAG, renderProgressLine } from './progressLine.js';

/** Heights behind the head at which a follower counts as catching up again. */
const CATCH_UP_LAG = 100;
/** Between log lines while catching up. */
const INTERVAL_MS = 10_000;
/** Between log lines while following the head. */
const FOLLOWING_INTERVAL_MS = 60_000;
/** How often the meter is sampled and the live line redrawn. */
const TURN_MS = 500;

/**
 * Reports progress: on a terminal by a line rewritten in place, elsewhere by log lines, every 10 s while catching
 * up and every minute at the head. Both modes log when the head is reached and lost. Returns a function that ends it.
 */
export function reportProgress(parts: {
  readonly clock: Clock;
  readonly meter: () => Progress;
  readonly store: { meta(): { readonly firstHeight: number } | undefined };
  readonly logger: Logger;
  /** Where the live line is; absent: log lines. */
  readonly terminal: Pick<LiveTerminal, 'columns' | 'setLine'> | undefined;
}): () => void {
  const { clock, logger, meter, store, terminal } = parts;
  let isFollowing = false;
  let loggedAtMs = clock.monotonic();

  const log = (progress: Progress, message: string): void => {
    loggedAtMs = clock.monotonic();
    const { eta, head, heldUpBy, lag, latestIndexed, rate } = progress;
    const fields = {
      // An empty store that starts at height 0 has the watermark -1.
      latestIndexed: (latestIndexed ?? -1) < 0 ? undefined : latestIndexed,
      ...(heldUpBy === undefined ? {} : { heldUpBy }),
      head: head ?? undefined,
      lag: lag ?? undefined,
      rate: Math.round(rate * 100) / 100,
      eta: eta === null ? 'unknown' : formatDuration(eta),
      etaSeconds: eta === null ? undefined : Math.round(eta),
    };
    logger.info(fields, message);
  };
  const report = (): void => {
    const progress = meter();
    const { heldUpBy, lag } = progress;
    const before = isFollowing;
    // Between the two thresholds it stays as it is, so that it does not flutter. While held up, the lag means nothing.
    if (lag !== null && heldUpBy === undefined) isFollowing = lag <= (before ? CATCH_UP_LAG : FOLLOWING_LAG);
    const message = inWords(progress, isFollowing);
    const intervalMs = message === FOLLOWING ? FOLLOWING_INTERVAL_MS : INTERVAL_MS;
    const isDue = terminal === undefined && clock.monotonic() - loggedAtMs >= intervalMs;
    if (isFollowing !== before) log(progress, isFollowing ? 'reached the head' : 'fell behind the head');
    else if (isDue) log(progress, message);
    const firstIndexed = store.meta()?.firstHeight ?? null;
    terminal?.setLine(renderProgressLine({ ...progress, firstIndexed }, terminal.columns()));
  };
  report();
  const timer = every(clock, TURN_MS, report);
  return () => {
    timer.cancel();
    terminal?.setLine(undefined);
  };
}

const FOLLOWING = 'following the head';

function inWords({ head, heldUpBy, lag }: Progress, isFollowing: boolean): string {
  if (lag === null) return head === null ? 'waiting for the head' : 'waiting for the start';
  if (heldUpBy !== undefined) return 'held up';
  return isFollowing ? FOLLOWING : 'catching up';
}
