import { repairStoreOf } from '../app/index.js';
import { daemonSettings } from '../config/index.js';
import type { Command } from './command.js';
import { configOf, ownValuesOf, storeSettings } from './settings.js';

const ownFlags = {
  yes: {
    doc: 'Do it: nothing is asked. Without it nothing is changed.',
    format: daemonSettings['edi.enabled'].format,
    default: false,
  },
} as const;

/** Damaged files that are named; the others are counted. */
const MAX_FILES_SHOWN = 20;

/** `repair`: keeps every height below the lowest damaged one. Works on the store, so no daemon may be running on it. */
export const repairCommand: Command = {
  name: 'repair',
  summary: 'Keep what is sound of a damaged store. No daemon may be running on it.',
  details:
    'Keeps every height below the lowest damaged one and forgets the others, which the daemon fetches again.\n' +
    'Exit code 0: repaired, or nothing to repair. Exit code 65: there is damage, and --yes was not given.',
  positionals: '',
  maxPositionals: 0,
  settings: storeSettings,
  ownFlags,
  run: async (invocation, terminal) => {
    const values = ownValuesOf(ownFlags, invocation);
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
  },
};
