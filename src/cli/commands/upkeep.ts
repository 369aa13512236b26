import { forgetAccountsOf, repairStoreOf, restoreInWords, rewindStore } from '../../app/index.js';
import { formatCount } from '../../observability/index.js';
import { rangesInWords } from '../../storage/index.js';
import type { confirmFlags, rewindFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { wrongUse, type Run } from '../command.js';
import { reportingTo } from '../output/words.js';

export const repair: Run<typeof confirmFlags> = async (invocation, terminal) => {
  const { config } = await configOf(invocation, terminal);
  const reporting = reportingTo(terminal, restoreInWords);
  const report = await repairStoreOf(config, { apply: invocation.flags.yes, ...reporting });
  if (report.damageCount === 0) {
    terminal.out('No damage: nothing to repair.\n');
    return 'done';
  }
  for (const what of report.files) terminal.out(`damaged: ${what}\n`);
  const { keptThrough = 0, latestIndexedHeight = keptThrough, holes } = report;
  const kept = report.kept.length === 0 ? 'no height' : `heights ${rangesInWords(report.kept)}`;
  const above = latestIndexedHeight > keptThrough ? ` (of ${latestIndexedHeight})` : '';
  const count = holes.reduce((sum, { from, to }) => sum + to - from + 1, 0);
  const heights = count === 1 ? 'height' : `${formatCount(count)} heights,`;
  const lost = count === 0 ? '' : ` Lost below that: ${heights} ${rangesInWords(holes)}.`;
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
};

export const rewind: Run<typeof rewindFlags> = async (invocation, terminal) => {
  const { to: height, yes } = invocation.flags;
  if (height === null)
    throw wrongUse('Say which height to keep: flow-collection-indexer rewind --to H --yes.');
  const { config } = await configOf(invocation, terminal);
  const inWords = (highest: number) => `forgotten down to height ${highest}`;
  const { onProgress: onStep } = reportingTo(terminal, inWords);
  const { from, through, forgotten } = await rewindStore(config, height, { apply: yes, onStep });
  if (!yes) {
    const what =
      forgotten === undefined
        ? 'there is nothing'
        : `${formatCount(forgotten.heights)} heights, ${forgotten.from} to ${forgotten.to}`;
    throw wrongUse(`This forgets everything above height ${through}: ${what}. Add --yes to do it.`);
  }
  terminal.out(`Rewound from height ${from} to ${through}. The daemon goes on at ${through + 1}.\n`);
  return 'done';
};

export const forget: Run<typeof confirmFlags> = async (invocation, terminal) => {
  const { yes } = invocation.flags;
  if (invocation.positionals[0] !== 'accounts')
    throw wrongUse('Say what to forget: flow-collection-indexer forget accounts --yes.');
  if (!yes) throw wrongUse('This forgets the account index of the store. Add --yes to do it.');
  const { config } = await configOf(invocation, terminal);
  const entries = await forgetAccountsOf(config);
  terminal.out(
    entries === undefined
      ? 'The store has no account index: nothing to forget.\n'
      : `Forgot the account index: ${formatCount(entries)} entries.\n`,
  );
  return 'done';
};
