import { migrateStores } from '../../app/index.js';
import { formatCount, formatDuration, formatRate } from '../../observability/index.js';
import { OperatorError, systemClock } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import { rangesInWords } from '../../storage/index.js';
import type { Invocation, Terminal } from '../command.js';
import { migrateFlags, ownValuesOf } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { counted } from '../output/counted.js';
import { atMostEvery } from '../output/interval.js';

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
  const { config } = await configOf(invocation, terminal);
  const notAStore = [from, to].find((place) => /^https?:/.test(place));
  if (notAStore !== undefined)
    throw new OperatorError(
      'usage',
      `${notAStore} is an address of a running daemon, and migrate copies stores: name a data directory that no daemon uses, or ` +
        'postgres://HOST/DATABASE. "start --peer HOST:PORT" fills an index from a daemon.',
    );
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
