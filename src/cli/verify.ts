import { verifyTarget } from '../app/index.js';
import { daemonSettings } from '../config/index.js';
import { formatCount, silentLogger } from '../observability/index.js';
import { systemClock } from '../runtime/index.js';
import { verifyStore } from '../storage/index.js';
import type { VerifyProgress, VerifyReport } from '../storage/index.js';
import type { Command, Terminal } from './command.js';
import { configOf, ownValuesOf, storeSettings } from './settings.js';

const height = daemonSettings.stopHeight.format;

const ownFlags = {
  from: {
    doc: 'First height to check.',
    format: height,
    default: null,
    defaultDoc: 'the first of the store',
  },
  to: { doc: 'Last height to check.', format: height, default: null, defaultDoc: 'the last of the store' },
} as const;

/** Between two progress lines on standard error. */
const PROGRESS_INTERVAL_MS = 1_000;

/** `verify`: proves that the store holds what it claims, or names every height where it does not. */
export const verifyCommand: Command = {
  name: 'verify',
  summary: 'Re-hash everything in the store and check that nothing is missing, wrong or too much.',
  details:
    'Exit code 0: all is well. Exit code 65: damage was found; each line names a height. No daemon may be running.',
  positionals: '',
  maxPositionals: 0,
  settings: storeSettings,
  ownFlags,
  run: async (invocation, terminal) => {
    const values = ownValuesOf(ownFlags, invocation);
    const { config } = configOf(invocation, terminal);
    const report = await verifyStore(
      { ...verifyTarget(config), from: values.from ?? undefined, to: values.to ?? undefined },
      { logger: silentLogger, onProgress: progressPrinter(terminal), signal: terminal.signal },
    );
    terminal.out(renderReport(report));
    return report.damageCount === 0 ? 'done' : 'damage';
  },
};

function progressPrinter(terminal: Terminal): (progress: VerifyProgress) => void {
  let shownAtMs = systemClock.monotonic();
  return (progress) => {
    const nowMs = systemClock.monotonic();
    if (nowMs - shownAtMs < PROGRESS_INTERVAL_MS) return;
    shownAtMs = nowMs;
    terminal.err(`verifying ${phrase(progress)}\n`);
  };
}

function phrase(progress: VerifyProgress): string {
  switch (progress.phase) {
    case 'blocks':
      return `height ${formatCount(progress.height)} of ${formatCount(progress.to)}`;
    case 'pointers':
      return `pointers: ${formatCount(progress.pointers)} so far`;
    case 'files':
      return 'the files themselves';
  }
}

function renderReport(report: VerifyReport): string {
  const { range } = report;
  const lines = report.damages.map(
    ({ height: at, kind, message }) =>
      `damage at ${at === undefined ? 'no single height' : `height ${at}`} (${kind}): ${message}`,
  );
  if (report.damageCount > report.damages.length) {
    lines.push(`… and ${formatCount(report.damageCount - report.damages.length)} more`);
  }
  lines.push(
    range === undefined
      ? 'checked: the store holds no heights'
      : `checked: heights ${range.from} to ${range.to}: ${formatCount(report.heights)} blocks, ` +
          `${formatCount(report.collections)} collections, ${formatCount(report.transactions)} transactions ` +
          `(${formatCount(report.bytes)} bytes), ids recomputed; parent links, completeness, order, checksums; ` +
          `${formatCount(report.pointers)} pointers, both ways`,
  );
  lines.push(
    report.damageCount === 0
      ? 'no damage'
      : `${formatCount(report.damageCount)} damages; "repair" tells what can be kept, "repair --yes" keeps it`,
  );
  return lines.join('\n') + '\n';
}
