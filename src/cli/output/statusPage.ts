import type { EndpointStatus, StatusDocument } from '../../api/index.js';
import { formatCount, formatDuration, formatRate, renderProgressLine } from '../../observability/index.js';
import { counted, LABEL_WIDTH, labelled, reasonWords, wrapped, type Row } from './words.js';
import { backfillLine, rangeLine, rangesLine } from './backfillPage.js';

/** Formats the daemon's status for people: what, how far, from where, and why it is not ready. */
export function renderStatus(status: StatusDocument): string {
  return labelled(rowsOf(status));
}

/** On a narrower terminal, each label begins its text. */
const MIN_COLUMNS_FOR_LABELS = 40;

/** The same, as the lines of a terminal: a heading, the progress bar and the page, wrapped to fit. */
export function statusScreen(
  status: StatusDocument,
  { columns, rows, head }: { readonly columns: number; readonly rows: number; readonly head: string },
): string[] {
  const lines = [...wrapped(head, columns), '', renderProgressLine(status, columns), ''];
  for (const [label, text] of rowsOf(status)) {
    if (columns < MIN_COLUMNS_FOR_LABELS) {
      lines.push(...wrapped(`${label === '' ? '' : `${label}: `}${text}`, columns));
      continue;
    }
    const parts = wrapped(text, columns - LABEL_WIDTH - 1);
    lines.push(...parts.map((part, index) => `${(index === 0 ? label : '').padEnd(LABEL_WIDTH)} ${part}`));
  }
  return lines.slice(0, rows);
}

export function statusLine(status: StatusDocument): string {
  const { firstIndexed, latestIndexed, eta, ready, reasons } = status;
  const isEmpty = firstIndexed === null || latestIndexed === null;
  const parts = [
    `indexed ${isEmpty ? 'nothing yet' : `through ${height(latestIndexed)}`}`,
    `head ${height(status.head)}${lag(status)}`,
    formatRate(status.rate) + (eta === null || eta === 0 ? '' : ` (${formatDuration(eta)} left)`),
    ...(status.backfill.plans.length === 0 ? [] : [`history ${rangesLine(status.backfill)}`]),
    ready ? 'ready' : `not ready: ${reasons.map(({ code }) => code).join(', ')}`,
  ];
  return parts.join('; ');
}

/** The rows of one label, which stands before the first text; none without texts. */
function row(label: string, ...texts: readonly string[]): Row[] {
  return texts.map((text, at) => [at === 0 ? label : '', text]);
}

function rowsOf(status: StatusDocument): Row[] {
  const { chainId, endpoints, eta, log, network, ready, reasons, sources, uptimeSeconds, version } = status;
  const atHead = eta === null || eta === 0 ? '' : `, at the head in ${formatDuration(eta)}`;
  return [
    row('network', `${network} (${chainId}), version ${version}, up ${formatDuration(uptimeSeconds)}`),
    row('indexed', indexed(status)),
    row('head', `${height(status.head)} finalized, ${height(status.sealed)} sealed${lag(status)}`),
    row('rate', `${formatRate(status.rate)}${atHead}`),
    // Above the rows that may be long: a screen has few lines.
    row('ready', ready ? 'yes' : 'no', ...reasons.map(reasonWords)),
    row('waiting', waiting(status)),
    row('proven', ...proven(status)),
    row('window', window(status)),
    row('requester', requester(status)),
    row('edi', stream(sources.edi)),
    // Only if there are any.
    row('peer', ...(sources.peer.state === 'off' ? [] : [stream(sources.peer)])),
    row('process', ...cluster(status)),
    ...endpoints.map(nodeRows),
    row('history', ...history(status)),
    row('accounts', ...accounts(status)),
    ...log.map(({ output, reason, lostLines, ageSeconds }) => {
      const lost = `${counted(lostLines, 'line')} lost`;
      return row('log', `${output} takes nothing: ${reason} (for ${formatDuration(ageSeconds)}; ${lost})`);
    }),
  ].flat();
}

const height = (value: number | null): string => (value === null ? 'unknown' : formatCount(value));

function indexed({ firstIndexed, latestIndexed }: StatusDocument): string {
  if (firstIndexed === null) return 'nothing yet: the first height is not known';
  if (latestIndexed === null) return `nothing yet: starts at height ${formatCount(firstIndexed)}`;
  const heights = formatCount(latestIndexed - firstIndexed + 1);
  return `${formatCount(firstIndexed)} to ${formatCount(latestIndexed)}: ${heights} heights, complete`;
}

function proven({ proof }: StatusDocument): string[] {
  const { committee, latestCertificate, mode, provenHeight, reason, sealedHeight } = proof;
  if (mode === 'off') return [];
  const parts: string[] = [];
  if (provenHeight !== null) parts.push(`final through ${formatCount(provenHeight)}`);
  if (sealedHeight !== null) parts.push(`sealed through ${formatCount(sealedHeight)}`);
  if (committee !== null && latestCertificate !== null)
    parts.push(
      `signed by ${latestCertificate.signers} of ${committee.members} consensus nodes (epoch ${committee.epoch})`,
    );
  if (reason !== null) parts.push(reason);
  return parts.length === 0 ? [] : [parts.join('; ')];
}

function lag({ lag: behind, head, headConfirmedSeconds, latestIndexed }: StatusDocument): string {
  if (behind !== null) return `, ${formatCount(behind)} behind`;
  if (head === null || headConfirmedSeconds === null || latestIndexed === null) return '';
  return `, lag unknown: no node has reported its head for ${formatDuration(headConfirmedSeconds)}`;
}

function cluster({ cluster: its }: StatusDocument): string[] {
  if (its === null) return [];
  const { alive, leader, leads, roles } = its;
  const led =
    leader === null
      ? 'no process is known to lead'
      : `${leader.worker} on ${leader.host} leads (last heartbeat ${formatDuration(leader.ageSeconds)} ago)`;
  return [`${roles.join(', ')}; ${leads ? 'it leads' : led}; ${formatCount(alive)} alive in all`];
}

const MIB = 1024 ** 2;

function window({ window: w }: StatusDocument): string {
  const bytes = `${(w.bytesInFlight / MIB).toFixed(1)} of ${(w.bytesLimit / MIB).toFixed(0)} MiB in flight`;
  return `${formatCount(w.inFlight)} of ${formatCount(w.heights)} heights, up to ${height(w.upperBound)}; ${bytes}`;
}

function requester({ sources: { requester: source } }: StatusDocument): string {
  if (source.state === 'off') return 'off (ediOnly)';
  return `${source.state}: ${formatCount(source.missing)} missing, ${formatCount(source.inFlight)} calls under way`;
}

function stream(source: StatusDocument['sources']['edi']): string {
  if (source.state === 'off') return 'off';
  const from = source.endpoint === null ? '' : ` ${source.endpoint}`;
  const at = source.height === null ? '' : `, delivered height ${formatCount(source.height)}`;
  const age = source.ageSeconds === null ? '' : ` ${formatDuration(source.ageSeconds)} ago`;
  return `${source.state}${from}${at}${age}${source.reason === null ? '' : `; ${source.reason}`}`;
}

/** History ranges shown at most; `backfill status` shows all. */
const RANGES_SHOWN = 8;

/** Empty when there is only the live range, and nothing is planned. */
function history({ backfill, coverage, firstIndexed }: StatusDocument): string[] {
  const below = coverage.filter(({ to }) => firstIndexed !== null && to < firstIndexed);
  const shown = below
    .slice(-RANGES_SHOWN)
    .map(({ from, to }) => `${formatCount(from)} to ${formatCount(to)}`);
  const others = below.length > shown.length ? ` and ${below.length - shown.length} ranges below` : '';
  const indexedBelow = shown.length === 0 ? [] : [`indexed: ${shown.join(', ')}${others}`];
  if (backfill.plans.length === 0) return indexedBelow;
  const paused = backfill.plans.every(({ state }) => state === 'paused') ? ' (paused)' : '';
  const ranges = backfill.ranges.filter(({ state }) => state !== 'waiting').slice(-RANGES_SHOWN);
  return [`${backfillLine(backfill)}${paused}`, ...indexedBelow, ...ranges.map(rangeLine)];
}

function accounts({ accountIndex: { state, coveredFrom, missingHeights } }: StatusDocument): string[] {
  if (state === 'off') return [];
  if (state === 'complete') return ['complete'];
  const toGo = `${formatCount(missingHeights ?? 0)} heights to go`;
  return [`${state}: covers ${height(coveredFrom)} and above, ${toGo}`];
}

function waiting({ waitingFor }: StatusDocument): string {
  if (waitingFor === null) return 'for nothing';
  const { message, ageSeconds } = waitingFor;
  return `${message.replace(/^waiting /, '')} (for ${formatDuration(ageSeconds)})`;
}

function nodeRows({ name, origin, state, reason, calls }: EndpointStatus): Row[] {
  return row(
    origin === 'peer' ? 'peer' : 'node',
    `${name}: ${state === 'unknown' ? 'no sound answer yet' : state.replace('_', ' ')}${reason === null ? '' : `: ${reason}`}`,
    ...calls.map(
      (call) =>
        `${call.method} ${call.state.replace('_', ' ')}: ${call.reason} (${call.count} times in ${formatDuration(call.sinceSeconds)})`,
    ),
  );
}
