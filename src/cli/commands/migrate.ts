import { followIndex, migrateStores } from '../../app/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { formatCount, formatDuration, formatRate } from '../../observability/index.js';
import { OperatorError, systemClock } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import { rangesInWords } from '../../storage/index.js';
import type { Invocation, Terminal } from '../command.js';
import { migrateFlags } from '../arguments/flags.js';
import { DaemonIndex } from '../follow/DaemonIndex.js';
import { followPrinter } from '../follow/followPrinter.js';
import { configOf } from '../arguments/settings.js';
import { ownValuesOf } from '../arguments/ownValues.js';
import { counted } from '../output/counted.js';
import { atMostEvery } from '../output/interval.js';

/** Pause between progress lines on standard error. */
const PROGRESS_INTERVAL_MS = 2_000;

/** `migrate`: copies the index to another store, once or for as long as it grows. No daemon may run on the target. */
export async function migrate(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const { follow, from, to, quiet } = ownValuesOf(migrateFlags, invocation);
  if (from === null || to === null)
    throw new OperatorError(
      'usage',
      'Say what to copy and where to: migrate --from DIR --to postgres://HOST/DATABASE.',
    );
  const loaded = configOf(invocation, terminal);
  if (follow) return followDaemon(loaded, { from, to, isQuiet: quiet }, terminal);
  if (/^https?:/.test(from))
    throw new OperatorError('usage', `--from ${from} is a running daemon. Add --follow to copy from one.`);
  const { config } = loaded;
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

async function followDaemon(
  loaded: LoadedConfig,
  { from, to, isQuiet }: { readonly from: string; readonly to: string; readonly isQuiet: boolean },
  terminal: Terminal,
): Promise<ExitReason> {
  const { signal } = terminal;
  const source = await DaemonIndex.open(loaded, from, signal);
  const printer = followPrinter(terminal, { isQuiet });
  const coverage = await followIndex(loaded.config, { to, source }, { signal, ...printer });
  terminal.out(
    coverage.length === 0
      ? 'The target holds nothing yet.\n'
      : `The target holds heights ${rangesInWords(coverage)}.\n`,
  );
  return 'done';
}

function progressPrinter(
  terminal: Terminal,
  isQuiet: boolean,
): Parameters<typeof migrateStores>[2]['onProgress'] {
  const startedAtMs = systemClock.monotonic();
  const isDue = atMostEvery(PROGRESS_INTERVAL_MS);
  return ({ copied, missing, height }) => {
    if (isQuiet || !isDue()) return;
    const perSecond = (1_000 * copied) / (systemClock.monotonic() - startedAtMs);
    terminal.err(
      `copied ${formatCount(copied)} of ${counted(missing, 'height')}, now at ${formatCount(height)}, ` +
        `${formatRate(perSecond)}, ${formatDuration((missing - copied) / perSecond)} left\n`,
    );
  };
}
