import { restoreInWords, verifyStoreOf } from '../../app/index.js';
import { formatCount } from '../../observability/index.js';
import { rangesInWords, type RangeReport, type VerifyReport } from '../../storage/index.js';
import type { Run } from '../command.js';
import type { verifyFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { counted, reportingTo } from '../output/words.js';

export const verify: Run<typeof verifyFlags> = async (invocation, terminal) => {
  const { from, to } = invocation.flags;
  const { config } = await configOf(invocation, terminal);
  const reporting = reportingTo(terminal, restoreInWords);
  const report = await verifyStoreOf(config, { from: from ?? undefined, to: to ?? undefined }, reporting);
  terminal.out(renderReport(report));
  return report.damageCount === 0 ? 'done' : 'damage';
};

function renderReport(report: VerifyReport): string {
  const { range } = report;
  const advice = report.damages.every(({ kind }) => kind === 'foreign')
    ? 'index again into another --data-dir or --store, or correct what names the block'
    : '"repair" says what can be kept, "repair --yes" keeps it';
  const lines = report.damages.map(({ height: at, kind, message }) =>
    at === undefined ? `damage (${kind}): ${message}` : `damage at height ${at} (${kind}): ${message}`,
  );
  if (report.damageCount > report.damages.length)
    lines.push(`… and ${formatCount(report.damageCount - report.damages.length)} more`);
  lines.push(
    range === undefined
      ? 'checked: the store holds no heights'
      : `checked: heights ${range.from} to ${range.to}: ${formatCount(report.heights)} blocks, ` +
          `${formatCount(report.collections)} collections, ${formatCount(report.transactions)} transactions ` +
          `(${formatCount(report.bytes)} bytes), ids recomputed; ${formatCount(report.proven)} blocks proven, ${formatCount(report.heights - report.proven)} on the word of nodes; ` +
          `parent links, completeness, order, checksums; ` +
          `${formatCount(report.pointers)} pointers, both ways`,
  );
  for (const { from, to, kind, blocks, damaged } of report.ranges.length > 1 ? report.ranges : []) {
    const state = damaged.length === 0 ? 'no damage' : `damaged: ${rangesInWords(damaged)}`;
    lines.push(`range ${from} to ${to} (${kinds[kind]}): ${counted(blocks, 'sound block')}, ${state}`);
  }
  if (report.waiting !== undefined) lines.push(readableSoFar(report.waiting, report));
  lines.push(report.damageCount === 0 ? 'no damage' : `${counted(report.damageCount, 'problem')}; ${advice}`);
  return lines.join('\n') + '\n';
}

const kinds: Readonly<Record<RangeReport['kind'], string>> = {
  live: 'follows the head',
  published: 'whole',
  open: 'being filled in, not readable yet',
};

/** Describes sound blocks above a gap, which cannot be read yet. */
function readableSoFar(
  { blocks, from, to }: NonNullable<VerifyReport['waiting']>,
  { range, ranges, latestIndexedHeight = -1 }: VerifyReport,
): string {
  const live = ranges.find(({ kind }) => kind === 'live');
  const first = live?.from ?? range?.from ?? Infinity;
  const readable = latestIndexedHeight < first ? 'no height' : `heights ${first} to ${latestIndexedHeight}`;
  const heights = from === to ? `height ${from}` : `heights ${from} to ${to}`;
  const gap = latestIndexedHeight + 1;
  const wait = gap < from ? ` until height ${gap} is there` : '; the daemon still has to see them confirmed';
  return `readable: ${readable}; not yet: ${counted(blocks, 'block')} at ${heights}${wait}`;
}
