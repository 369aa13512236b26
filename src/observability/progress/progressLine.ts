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
  const { etaSeconds, fraction, heldUpBy, latestIndexed, mode } = state;
  if (state.lag === undefined || state.head === undefined || latestIndexed === undefined) {
    const what = `waiting for the ${state.head === undefined ? 'head of the chain' : 'start'}`;
    const why = heldUpBy === undefined ? [] : [`${what}: ${heldUpBy}`];
    return firstThatFits([...why, what, 'waiting'], columns);
  }
  const [head, lag] = [formatCount(state.head), `lag ${formatCount(state.lag)}`];
  const rate = formatRate(state.ratePerSecond);
  if (heldUpBy !== undefined) {
    const at = `held up at ${formatCount(latestIndexed + 1)}`;
    return firstThatFits([`${at}: ${heldUpBy}, ${lag}`, `${at}, ${lag}`, at], columns);
  }
  if (mode === 'following') {
    const short = `following, head ${head}`;
    return firstThatFits([`${short}, ${lag}, ${rate}`, short, `head ${head}`], columns);
  }
  // Rounded down: 100 % only when nothing is left.
  const percent = `${(Math.floor(fraction * 1000) / 10).toFixed(1)}%`;
  const eta = `ETA ${etaSeconds === undefined ? 'unknown' : formatDuration(etaSeconds)}`;
  // An empty store that starts at height 0 has the watermark -1: do not show a negative height.
  const heights = `${formatCount(Math.max(0, latestIndexed))} / ${head}`;
  const forms = [[heights, rate, lag, eta], [rate, lag, eta], [lag, eta], [eta], []];
  const lines = forms.map((parts) => [percent, ...parts].join(GAP));
  const barred = lines.slice(0, 2).flatMap((line) => {
    const room = Math.min(MAX_BAR_COLUMNS, columns - line.length - GAP.length - '[]'.length);
    return room < MIN_BAR_COLUMNS ? [] : bar(fraction, room) + GAP + line;
  });
  return firstThatFits([...barred, ...lines.slice(1)], columns);
}

function bar(fraction: number, columns: number): string {
  const done = Math.floor(fraction * columns);
  return `[${`${'='.repeat(done)}>`.slice(0, columns).padEnd(columns)}]`;
}

/** Candidates go from long to short; the last one is cut if it must be. */
function firstThatFits(candidates: readonly string[], columns: number): string {
  const found = candidates.find((candidate) => candidate.length <= columns) ?? candidates.at(-1) ?? '';
  return found.slice(0, Math.max(0, columns));
}
