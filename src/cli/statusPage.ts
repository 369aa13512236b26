import type { StatusDocument } from '../api/index.js';
import { formatCount, formatDuration, formatRate } from '../observability/index.js';

const LABEL_WIDTH = 12;

/** The daemon's status as a page for the eye: what, how far, from where, and why it is not ready. */
export function renderStatus(status: StatusDocument): string {
  const lines: [string, string][] = [
    [
      'network',
      `${status.network} (${status.chainId}), version ${status.version}, up ${formatDuration(status.uptimeSeconds)}`,
    ],
    ['indexed', indexed(status)],
    ['head', `${height(status.head)} finalized, ${height(status.sealed)} sealed${lag(status)}`],
    [
      'rate',
      `${formatRate(status.rate)}${status.eta === null ? '' : `, at the head in ${formatDuration(status.eta)}`}`,
    ],
    ['window', window(status)],
    ['requester', requester(status)],
    ['edi', edi(status)],
    ...status.endpoints.map(({ name, state }): [string, string] => [
      'node',
      `${name}: ${state.replace('_', ' ')}`,
    ]),
    ['waiting for', oldest(status)],
    ['ready', status.ready ? 'yes' : 'no'],
    ...status.reasons.map(({ code, message, sinceSeconds }): [string, string] => [
      '',
      `${code}: ${message} (for ${formatDuration(sinceSeconds)})`,
    ]),
  ];
  return lines.map(([label, text]) => `${label.padEnd(LABEL_WIDTH)} ${text}\n`).join('');
}

function height(value: number | null): string {
  return value === null ? 'unknown' : formatCount(value);
}

function indexed({ firstIndexed, latestIndexed }: StatusDocument): string {
  if (firstIndexed === null || latestIndexed === null) return 'nothing yet: the first height is not known';
  if (latestIndexed < firstIndexed) return `nothing yet: starts at height ${formatCount(firstIndexed)}`;
  const heights = formatCount(latestIndexed - firstIndexed + 1);
  return `${formatCount(firstIndexed)} to ${formatCount(latestIndexed)}: ${heights} heights, complete`;
}

function lag({ lag: behind }: StatusDocument): string {
  return behind === null ? '' : `, ${formatCount(behind)} behind`;
}

const MIB = 1024 ** 2;

function window({ window: w }: StatusDocument): string {
  const bytes = `${(w.bytesInFlight / MIB).toFixed(1)} of ${(w.bytesLimit / MIB).toFixed(0)} MiB in flight`;
  return `${formatCount(w.inFlight)} of ${formatCount(w.heights)} heights, up to ${height(w.upperBound)}; ${bytes}`;
}

function requester({ sources: { requester: source } }: StatusDocument): string {
  if (source.state === 'off') return 'off (ediOnly)';
  return `${source.state}: ${formatCount(source.missing)} collections missing, ${formatCount(source.inFlight)} calls under way`;
}

function edi({ sources: { edi: source } }: StatusDocument): string {
  if (source.state === 'off') return 'off';
  const from = source.endpoint === null ? '' : ` ${source.endpoint}`;
  const at = source.height === null ? '' : `, delivered height ${formatCount(source.height)}`;
  const age = source.ageSeconds === null ? '' : ` ${formatDuration(source.ageSeconds)} ago`;
  return `${source.state}${from}${at}${age}`;
}

function oldest({ oldestMissing }: StatusDocument): string {
  if (oldestMissing === null) return 'nothing';
  const { height: at, missing, ageSeconds } = oldestMissing;
  return `${formatCount(missing)} collections of height ${formatCount(at)} for ${formatDuration(ageSeconds)}`;
}
