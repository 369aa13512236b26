import { repairStoreOf } from '../../app/index.js';
import { formatCount } from '../../observability/index.js';
import type { ExitReason } from '../../runtime/index.js';
import { rangesInWords } from '../../storage/index.js';
import type { RepairReport } from '../../storage/index.js';
import type { Invocation, Terminal } from '../command.js';
import { ownValuesOf, repairFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';

/** `repair`: keeps every sound height, and plans what is lost between. No daemon may be running on the store. */
export async function repair(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const values = ownValuesOf(repairFlags, invocation);
  const { config } = await configOf(invocation, terminal);
  const report = await repairStoreOf(config, { apply: values.yes, signal: terminal.signal });
  if (report.damageCount === 0) {
    terminal.out('No damage: nothing to repair.\n');
    return 'done';
  }
  for (const what of report.files) terminal.out(`damaged: ${what}\n`);
  const { keptThrough = 0, latestIndexedHeight = keptThrough, holes } = report;
  const kept = report.kept.length === 0 ? 'no height' : `heights ${rangesInWords(report.kept)}`;
  const above = latestIndexedHeight > keptThrough ? ` (of ${latestIndexedHeight})` : '';
  const lost = holes.length === 0 ? '' : ` Lost below that: ${lostHeights(holes)}.`;
  if (!report.applied) {
    terminal.out(
      `Can be kept: ${kept}${above}.${lost} Add --yes to do it; the daemon then fetches what is lost.\n`,
    );
    return 'damage';
  }
  const filled = holes.length === 0 ? '' : ', and fills those in again';
  terminal.out(
    `Repaired. Kept: ${kept}${above}.${lost} The daemon goes on at ${keptThrough + 1}${filled}.\n`,
  );
  return 'done';
}

function lostHeights(holes: RepairReport['holes']): string {
  const count = holes.reduce((sum, { from, to }) => sum + to - from + 1, 0);
  return `${count === 1 ? 'height' : `${formatCount(count)} heights,`} ${rangesInWords(holes)}`;
}
