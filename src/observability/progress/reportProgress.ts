import { every, type Clock } from '../../runtime/index.js';
import type { Logger } from '../logs/Logger.js';
import type { LiveTerminal } from './LiveTerminal.js';
import type { ProgressMeter, ProgressState } from './measureProgress.js';
import { formatDuration } from './format.js';
import { renderProgressLine } from './progressLine.js';

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
  readonly meter: ProgressMeter;
  readonly logger: Logger;
  /** Where the live line is; absent: log lines. */
  readonly terminal: Pick<LiveTerminal, 'columns' | 'setLine'> | undefined;
}): () => void {
  const { clock, logger, meter, terminal } = parts;
  let mode: ProgressState['mode'] = 'waiting';
  let loggedAtMs = clock.monotonic();

  const log = (state: ProgressState, message: string): void => {
    loggedAtMs = clock.monotonic();
    const { etaSeconds, head, heldUpBy, lag, latestIndexed = -1, ratePerSecond } = state;
    const fields = {
      // An empty store that starts at height 0 has the watermark -1.
      latestIndexed: latestIndexed < 0 ? undefined : latestIndexed,
      ...(heldUpBy === undefined ? {} : { heldUpBy }),
      head,
      lag,
      rate: Math.round(ratePerSecond * 100) / 100,
      eta: etaSeconds === undefined ? 'unknown' : formatDuration(etaSeconds),
      etaSeconds: etaSeconds && Math.round(etaSeconds),
    };
    logger.info(fields, message);
  };
  const report = (): void => {
    const state = meter.state();
    const isHeldUp = state.heldUpBy !== undefined;
    const intervalMs = state.mode === 'following' && !isHeldUp ? FOLLOWING_INTERVAL_MS : INTERVAL_MS;
    const isDue = terminal === undefined && clock.monotonic() - loggedAtMs >= intervalMs;
    const before = mode;
    // A mode change while held up means nothing.
    if (!isHeldUp) ({ mode } = state);
    if (mode === 'following' && before !== mode) log(state, 'reached the head');
    else if (mode === 'catching_up' && before === 'following') log(state, 'fell behind the head');
    else if (isDue) log(state, inWords(state));
    terminal?.setLine(renderProgressLine(state, terminal.columns()));
  };
  report();
  const timer = every(clock, TURN_MS, report);
  return () => {
    timer.cancel();
    terminal?.setLine(undefined);
  };
}

function inWords({ head, heldUpBy, mode }: ProgressState): string {
  if (mode === 'waiting') return head === undefined ? 'waiting for the head' : 'waiting for the start';
  if (heldUpBy !== undefined) return 'held up';
  return mode === 'following' ? 'following the head' : 'catching up';
}
