import { formatCount, formatDuration, formatRate, readinessCodes } from '../../observability/index.js';
import type { ProgressState, Readiness } from '../../observability/index.js';
import { withoutIds } from './causes/describeTroubles.js';

/**
 * What the daemon is doing, in one line for its service manager: first what holds it up, then its height and lag.
 */
export function serviceStatus(progress: ProgressState, { reasons }: Readiness): string {
  const trouble = reasons.find(({ code }) => readinessCodes[code].severity === 'trouble');
  const waiting = trouble ?? (progress.mode === 'waiting' ? reasons[0] : undefined);
  const where = placeOf(progress);
  return waiting === undefined ? where : withoutIds(`${waiting.code}: ${waiting.message} (${where})`);
}

function placeOf({ etaSeconds, head, lag, latestIndexed, mode, ratePerSecond }: ProgressState): string {
  // An empty store is at height -1.
  const height =
    latestIndexed === undefined || latestIndexed < 0
      ? 'nothing indexed yet'
      : `height ${formatCount(latestIndexed)}`;
  if (lag === undefined || head === undefined) return `${height}, head unknown`;
  if (mode === 'following') return `${height}, lag ${formatCount(lag)}, following the head`;
  const eta = etaSeconds === undefined ? 'ETA unknown' : `ETA ${formatDuration(etaSeconds)}`;
  return `${height} of ${formatCount(head)}, lag ${formatCount(lag)}, ${formatRate(ratePerSecond)}, ${eta}`;
}
