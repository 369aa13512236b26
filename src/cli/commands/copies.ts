import { resolve } from 'node:path';
import { backupStoreOf, migrateStores, restoreInWords, restoreStoreOf } from '../../app/index.js';
import { formatCount, formatDuration, formatRate, formatSize } from '../../observability/index.js';
import { inShell, systemClock } from '../../runtime/index.js';
import { rangesInWords } from '../../storage/index.js';
import type { backupFlags, migrateFlags, restoreFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { wrongUse, type Run } from '../command.js';
import { counted, reportingTo } from '../output/words.js';

export const backup: Run<typeof backupFlags> = async (invocation, terminal) => {
  const { to } = invocation.flags;
  if (to === null) throw wrongUse('Say where to put the copy: backup --to DIR.');
  const { config } = await configOf(invocation, terminal);
  const report = await backupStoreOf(config, resolve(to), reportingTo(terminal, restoreInWords));
  const { coverage, copiedBytes, linkedBytes, lost, tables } = report;
  const what = coverage.length === 0 ? 'It holds no height yet' : `Heights ${rangesInWords(coverage)}`;
  const linked = linkedBytes === 0 ? '' : `, ${formatSize(linkedBytes)} as hard links`;
  terminal.out(
    `Copied to ${to}. ${what}; ${formatCount(tables)} tables${linked}, ${formatSize(copiedBytes)} copied.\n` +
      `"flow-collection-indexer verify --network ${config.network} --data-dir ${inShell(to)}" checks every block of it.\n`,
  );
  if (lost.length === 0) return 'done';
  terminal.out(
    `It lacks heights ${rangesInWords(lost)}, which the store held: files of the store were lost, or were deleted while it was copied.\n`,
  );
  return 'damage';
};

export const restore: Run<typeof restoreFlags> = async (invocation, terminal) => {
  const { from, quiet } = invocation.flags;
  if (from === null) throw wrongUse('Say what to restore: restore --from DIR, or --from https://….');
  const { config } = await configOf(invocation, terminal);
  const report = await restoreStoreOf(config, from, reportingTo(terminal, restoreInWords, quiet));
  const heights = report.ranges.length === 0 ? 'no height' : `heights ${rangesInWords(report.ranges)}`;
  terminal.out(
    `Restored and verified: ${heights}, ` +
      `${formatCount(report.collections)} collections, ${formatCount(report.transactions)} transactions; ` +
      `${formatCount(report.proven)} blocks proven, ${formatCount(report.heights - report.proven)} on the word of nodes.\n`,
  );
  return 'done';
};

export const migrate: Run<typeof migrateFlags> = async (invocation, terminal) => {
  const { from, to, quiet } = invocation.flags;
  if (from === null || to === null)
    throw wrongUse('Say what to copy and where to: migrate --from DIR --to postgres://HOST/DATABASE.');
  const { config } = await configOf(invocation, terminal);
  const notAStore = [from, to].find((place) => /^https?:/.test(place));
  if (notAStore !== undefined)
    throw wrongUse(
      `${notAStore} is an address of a running daemon, and migrate copies stores: name a data directory that no daemon uses, or ` +
        'postgres://HOST/DATABASE. "start --peer HOST:PORT" fills an index from a daemon.',
    );
  const startedAtMs = systemClock.monotonic();
  const inWords = ({ copied, missing, height }: Record<'copied' | 'missing' | 'height', number>): string => {
    const perSecond = (1_000 * copied) / (systemClock.monotonic() - startedAtMs);
    const soFar = `copied ${formatCount(copied)} of ${counted(missing, 'height')}, now at ${formatCount(height)}`;
    return `${soFar}, ${formatRate(perSecond)}, ${formatDuration((missing - copied) / perSecond)} left`;
  };
  const report = await migrateStores(config, { from, to }, reportingTo(terminal, inWords, quiet));
  const skipped = report.skipped === 0 ? '' : `; ${counted(report.skipped, 'height')} were there already`;
  const plans = report.plans === 0 ? '' : `, ${counted(report.plans, 'plan')}`;
  terminal.out(
    `Copied ${counted(report.copied, 'height')}${plans}${skipped}. The target holds heights ${rangesInWords(report.coverage)}.\n`,
  );
  return 'done';
};
