import { verifyTarget } from '../app/index.js';
import { formatCount, silentLogger } from '../observability/index.js';
import { systemClock } from '../runtime/index.js';
import { verifyStore } from '../storage/index.js';
import type { VerifyProgress, VerifyReport } from '../storage/index.js';
import type { ExitReason } from '../runtime/index.js';
import type { Invocation, Terminal } from './command.js';
import { verifyFlags } from './flags.js';
import { configOf, ownValuesOf } from './settings.js';

/** Between two progress lines on standard error. */
const PROGRESS_INTERVAL_MS = 1_000;

/** `verify`: proves that the store holds what it claims, or names every height where it does not. */
export async function verify(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const values = ownValuesOf(verifyFlags, invocation);
  const { config } = configOf(invocation, terminal);
  const report = await verifyStore(
    { ...verifyTarget(config), from: values.from ?? undefined, to: values.to ?? undefined },
    { logger: silentLogger, onProgress: progressPrinter(terminal), signal: terminal.signal },
  );
  terminal.out(renderReport(report));
  return report.damageCount === 0 ? 'done' : 'damage';
}

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
