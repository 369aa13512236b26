import { migrateStores } from '../../app/index.js';
import { formatCount, formatDuration, formatRate } from '../../observability/index.js';
import { OperatorError, systemClock } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import { rangesInWords } from '../../storage/index.js';
import type { Invocation, Terminal } from '../command.js';
import { migrateFlags } from '../flags.js';
import { configOf } from '../settings.js';
import { ownValuesOf } from '../ownValues.js';

/** Pause between progress lines on standard error. */
const PROGRESS_INTERVAL_MS = 2_000;

/** `migrate`: copies the index to another store. No daemon may run on the target. */
export async function migrate(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const { from, to, quiet } = ownValuesOf(migrateFlags, invocation);
  if (from === null || to === null)
    throw new OperatorError(
      'usage',
      'Say what to copy and where to: migrate --from DIR --to postgres://HOST/DATABASE.',
    );
  const { config } = configOf(invocation, terminal);
  const report = await migrateStores(
    config,
    { from, to },
    { signal: terminal.signal, onProgress: progressPrinter(terminal, quiet) },
  );
  const skipped = report.skipped === 0 ? '' : `; ${counted(report.skipped, 'height')} were there already`;
  const plans = report.plans === 0 ? '' : `, ${counted(report.plans, 'plan')}`;
  terminal.out(
    `Copied ${counted(report.copied, 'height')}${plans}${skipped}. The target holds heights ${rangesInWords(report.coverage)}.\n`,
  );
  return 'done';
}

function progressPrinter(
  terminal: Terminal,
  isQuiet: boolean,
): Parameters<typeof migrateStores>[2]['onProgress'] {
  const startedAtMs = systemClock.monotonic();
  let shownAtMs = startedAtMs;
  return ({ copied, missing, height }) => {
    const nowMs = systemClock.monotonic();
    if (isQuiet || nowMs - shownAtMs < PROGRESS_INTERVAL_MS) return;
    shownAtMs = nowMs;
    const perSecond = (1_000 * copied) / (nowMs - startedAtMs);
    terminal.err(
      `copied ${formatCount(copied)} of ${counted(missing, 'height')}, now at ${formatCount(height)}, ` +
        `${formatRate(perSecond)}, ${formatDuration((missing - copied) / perSecond)} left\n`,
    );
  };
}

function counted(count: number, noun: string): string {
  return `${formatCount(count)} ${count === 1 ? noun : `${noun}s`}`;
}
