import { repairStoreOf } from '../../app/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';
import { repairFlags } from '../flags.js';
import { configOf, ownValuesOf } from '../settings.js';

/** How many damaged files are named; the rest are only counted. */
const MAX_FILES_SHOWN = 20;

/** `repair`: keeps every height below the lowest damaged one. No daemon may be running on the store. */
export async function repair(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const values = ownValuesOf(repairFlags, invocation);
  const { config } = configOf(invocation, terminal);
  const report = await repairStoreOf(config, { apply: values.yes, signal: terminal.signal });
  if (report.damageCount === 0) {
    terminal.out('No damage: nothing to repair.\n');
    return 'done';
  }
  const shown = report.files.slice(0, MAX_FILES_SHOWN);
  for (const { file, what } of shown) terminal.out(`damaged: file ${file}: ${what}\n`);
  if (report.files.length > shown.length) {
    terminal.out(`… and ${report.files.length - shown.length} more\n`);
  }
  const { firstHeight, keptThrough = 0, latestIndexedHeight = keptThrough } = report;
  const nothing = firstHeight === undefined || keptThrough < firstHeight;
  const kept = nothing ? 'no height' : `heights ${firstHeight} to ${keptThrough}`;
  const lost = latestIndexedHeight > keptThrough ? ` (of ${latestIndexedHeight})` : '';
  if (!report.applied) {
    terminal.out(`Can be kept: ${kept}${lost}. Add --yes to do it; the daemon then goes on from there.\n`);
    return 'damage';
  }
  terminal.out(`Repaired. Kept: ${kept}${lost}. The daemon goes on at ${keptThrough + 1}.\n`);
  return 'done';
}
