import { formatCount, formatDuration, formatRate } from './format.js';
import type { ProgressState } from './measureProgress.js';

const MIN_BAR_COLUMNS = 10;
const MAX_BAR_COLUMNS = 40;
const GAP = '  ';

/**
 * One line of at most `columns` characters, in ASCII because some terminals count wider characters differently. On
 * a narrow terminal, watermark and head are left out first, then the bar, the rate and the lag.
 */
export function renderProgressLine(state: ProgressState, columns: number): string {
  return fit(state, columns).slice(0, Math.max(0, columns));
}

function fit(state: ProgressState, columns: number): string {
  if (state.lag === undefined || state.head === undefined || state.latestIndexed === undefined) {
    const what = `waiting for the ${state.head === undefined ? 'head of the chain' : 'start'}`;
    const why = state.heldUpBy === undefined ? [] : [`${what}: ${state.heldUpBy}`];
    return firstThatFits([...why, what, 'waiting'], columns);
  }
  const head = formatCount(state.head);
  const rate = formatRate(state.ratePerSecond);
  if (state.heldUpBy !== undefined) {
    const at = `held up at ${formatCount(state.latestIndexed + 1)}`;
    const lag = `lag ${formatCount(state.lag)}`;
    return firstThatFits([`${at}: ${state.heldUpBy}, ${lag}`, `${at}, ${lag}`, at], columns);
  }
  if (state.mode === 'following') {
    const short = `following, head ${head}`;
    return firstThatFits(
      [`${short}, lag ${formatCount(state.lag)}, ${rate}`, short, `head ${head}`],
      columns,
    );
  }
  // Rounded down: 100 % only when nothing is left.
  const percent = `${(Math.floor(state.fraction * 1000) / 10).toFixed(1)}%`;
  const lag = `lag ${formatCount(state.lag)}`;
  const eta = `ETA ${state.etaSeconds === undefined ? 'unknown' : formatDuration(state.etaSeconds)}`;
  // An empty store that starts at height 0 has the watermark -1: do not show a negative height.
  const heights = `${formatCount(Math.max(0, state.latestIndexed))} / ${head}`;
  const withBar = (parts: readonly string[]): string | undefined => {
    const rest = parts.join(GAP);
    const room = Math.min(MAX_BAR_COLUMNS, columns - rest.length - GAP.length - '[]'.length);
    return room < MIN_BAR_COLUMNS ? undefined : `${bar(state.fraction, room)}${GAP}${rest}`;
  };
  return (
    withBar([percent, heights, rate, lag, eta]) ??
    withBar([percent, rate, lag, eta]) ??
    firstThatFits(
      [[percent, rate, lag, eta].join(GAP), [percent, lag, eta].join(GAP), [percent, eta].join(GAP), percent],
      columns,
    )
  );
}

function bar(fraction: number, columns: number): string {
  const done = Math.floor(fraction * columns);
  const tip = done < columns ? '>' : '';
  return `[${'='.repeat(done)}${tip}${' '.repeat(columns - done - tip.length)}]`;
}

/** Returns the first candidate that fits, else the last one. Candidates go from long to short. */
function firstThatFits(candidates: readonly string[], columns: number): string {
  return candidates.find((candidate) => candidate.length <= columns) ?? candidates.at(-1) ?? '';
}
