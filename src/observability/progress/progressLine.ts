import { formatCount, formatDuration, formatRate } from './format.js';
import type { Progress } from './measureProgress.js';

/** Heights behind the head at which the daemon counts as following. */
export const FOLLOWING_LAG = 10;
const MIN_BAR_COLUMNS = 10;
const MAX_BAR_COLUMNS = 40;
const GAP = '  ';

/**
 * One line of at most `columns` characters, in ASCII because some terminals count wider characters differently. On
 * a narrow terminal, watermark and head are left out first, then the bar, the rate and the lag.
 */
export function renderProgressLine(
  progress: Progress & { readonly firstIndexed: number | null },
  columns: number,
): string {
  const { eta, firstIndexed: first, heldUpBy } = progress;
  if (progress.lag === null || progress.head === null || first === null) {
    const what = `waiting for the ${progress.head === null ? 'head of the chain' : 'start'}`;
    const why = heldUpBy === undefined ? [] : [`${what}: ${heldUpBy}`];
    return firstThatFits([...why, what, 'waiting'], columns);
  }
  const latest = progress.latestIndexed ?? first - 1;
  const [head, lag] = [formatCount(progress.head), `lag ${formatCount(progress.lag)}`];
  const rate = formatRate(progress.rate);
  if (heldUpBy !== undefined) {
    const at = `held up at ${formatCount(latest + 1)}`;
    return firstThatFits([`${at}: ${heldUpBy}, ${lag}`, `${at}, ${lag}`, at], columns);
  }
  if (progress.lag <= FOLLOWING_LAG) {
    const short = `following, head ${head}`;
    return firstThatFits([`${short}, ${lag}, ${rate}`, short, `head ${head}`], columns);
  }
  const share = Math.min(1, Math.max(0, (latest - first + 1) / (progress.head - first + 1)));
  // Rounded down: 100 % only when nothing is left.
  const percent = `${(Math.floor(share * 1000) / 10).toFixed(1)}%`;
  const left = `ETA ${eta === null ? 'unknown' : formatDuration(eta)}`;
  // An empty store that starts at height 0 has the watermark -1: do not show a negative height.
  const heights = `${formatCount(Math.max(0, latest))} / ${head}`;
  const forms = [[heights, rate, lag, left], [rate, lag, left], [lag, left], [left], []];
  const lines = forms.map((parts) => [percent, ...parts].join(GAP));
  const barred = lines.slice(0, 2).flatMap((line) => {
    const room = Math.min(MAX_BAR_COLUMNS, columns - line.length - GAP.length - '[]'.length);
    return room < MIN_BAR_COLUMNS ? [] : bar(share, room) + GAP + line;
  });
  return firstThatFits([...barred, ...lines.slice(1)], columns);
}

function bar(share: number, columns: number): string {
  const done = Math.floor(share * columns);
  return `[${`${'='.repeat(done)}>`.slice(0, columns).padEnd(columns)}]`;
}

/** Candidates go from long to short; the last one is cut if it must be. */
function firstThatFits(candidates: readonly string[], columns: number): string {
  const found = candidates.find((candidate) => candidate.length <= columns) ?? candidates.at(-1) ?? '';
  return found.slice(0, Math.max(0, columns));
}
