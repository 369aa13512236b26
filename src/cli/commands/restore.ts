import { restoreInWords, restoreStoreOf } from '../../app/index.js';
import type { RestoreProgress } from '../../app/index.js';
import { formatCount } from '../../observability/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import { rangesInWords } from '../../storage/index.js';
import type { Invocation, Terminal } from '../command.js';
import { ownValuesOf, restoreFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { atMostEvery } from '../output/interval.js';

/** Pause between progress lines on standard error. */
const PROGRESS_INTERVAL_MS = 2_000;

/** `restore`: makes a store of a backup, once all of it has been verified. */
export async function restore(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const { from, quiet } = ownValuesOf(restoreFlags, invocation);
  if (from === null)
    throw new OperatorError('usage', 'Say what to restore: restore --from DIR, or --from https://….');
  const { config } = await configOf(invocation, terminal);
  const isDue = atMostEvery(PROGRESS_INTERVAL_MS);
  const onProgress = (progress: RestoreProgress): void => {
    if (!quiet && isDue()) terminal.err(`${restoreInWords(progress)}\n`);
  };
  const report = await restoreStoreOf(config, from, { signal: terminal.signal, onProgress });
  const heights = report.ranges.map(({ from: first, to }) => ({ from: first, to }));
  terminal.out(
    `Restored and verified: ${heights.length === 0 ? 'no height' : `heights ${rangesInWords(heights)}`}, ` +
      `${formatCount(report.collections)} collections, ${formatCount(report.transactions)} transactions; ` +
      `${formatCount(report.proven)} blocks proven, ${formatCount(report.heights - report.proven)} on the word of nodes.\n`,
  );
  return 'done';
}
