import type { BackfillRangeStatus, BackfillStatus } from '../../api/index.js';
import { formatCount, formatDuration, formatRate } from '../../observability/index.js';
import type { HeightRange } from '../../storage/index.js';

export function renderBackfill(backfill: BackfillStatus): string {
  const { plans, ranges, unserved } = backfill;
  if (plans.length === 0) return 'Nothing is planned.\n';
  const lines = [
    backfillLine(backfill),
    ...plans.map(
      ({ id, from, to, order, state, missingHeights, untakenVersion }) =>
        `plan ${id}: ${span({ from, to })}, ${order} first, ${formatCount(missingHeights)} to go` +
        (state === 'paused' ? ', paused' : '') +
        (untakenVersion === null ? '' : `, but no live worker does work of version ${untakenVersion}`),
    ),
    ...ranges.map(rangeLine),
    ...unserved.map((range) => `no access node serves ${span(range)}`),
  ];
  return `${lines.join('\n')}\n`;
}

export function backfillLine({ missingHeights, rate, eta, heldBack, ranges }: BackfillStatus): string {
  const slower = heldBack === null ? '' : `; held back: ${heldBack.message}`;
  const pace = ranges.some(isElsewhere) && rate === 0 ? '' : `, ${paceOf({ rate, eta })}`;
  return `${formatCount(missingHeights)} heights to go${pace}${slower}`;
}

const paceOf = ({ rate, eta }: Pick<BackfillStatus, 'rate' | 'eta'>): string =>
  `${formatRate(rate)}, ETA ${eta === null ? 'unknown' : formatDuration(eta)}`;

/** Another process works on the range: its pace is not known here. */
const isElsewhere = ({ rate, state, waitingFor }: BackfillRangeStatus): boolean =>
  state === 'running' && rate === 0 && waitingFor === null;

/** Overall progress, with the ranges in progress, in one line. */
export function rangesLine(backfill: BackfillStatus): string {
  const shown = backfill.ranges
    .slice(0, MAX_RANGES_IN_LINE)
    .map((range) => `${span(range)} ${range.state} ${percentOf(range)}`);
  const more = backfill.ranges.length > shown.length ? [`${backfill.ranges.length - shown.length} more`] : [];
  const ranges = shown.length === 0 ? '' : ` (${[...shown, ...more].join(', ')})`;
  return `${backfillLine(backfill)}${ranges}`;
}

const MAX_RANGES_IN_LINE = 4;

const percentOf = ({ from, to, next }: BackfillRangeStatus): string =>
  `${Math.floor((100 * (next - from)) / (to - from + 1))}%`;

export function rangeLine(range: BackfillRangeStatus): string {
  const { state, rate, eta, failures, reason, waitingFor } = range;
  const head = `range ${span(range)}: ${state}, ${percentOf(range)}`;
  if (waitingFor !== null)
    return `${head}: ${waitingFor.message} (for ${formatDuration(waitingFor.ageSeconds)})`;
  if (isElsewhere(range)) return head;
  if (state === 'running') return `${head}, ${paceOf({ rate, eta })}`;
  if (failures === 0) return head;
  const again = state === 'disputed' ? '; "backfill redrive" runs it again' : '';
  return `${head}, failed ${failures} times: ${reason ?? 'reason unknown'}${again}`;
}

const span = ({ from, to }: HeightRange): string => `${formatCount(from)} to ${formatCount(to)}`;
