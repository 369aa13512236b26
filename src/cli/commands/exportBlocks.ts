import { formatCount } from '../../observability/index.js';
import { named, OperatorError } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import { missingIn, rangesInWords } from '../../storage/index.js';
import type { Invocation, Terminal } from '../command.js';
import { fileOutput, standardOutput } from '../export/exportOutput.js';
import type { ExportOutput } from '../export/exportOutput.js';
import { ENDLESS, exportProgress } from '../export/exportProgress.js';
import { openExportSource } from '../export/exportSource.js';
import type { ExportSource } from '../export/exportSource.js';
import { checkSame, runExport } from '../export/runExport.js';
import type { ExportParts, ExportPlan } from '../export/runExport.js';
import { exportFlags } from '../flags.js';
import { configOf, ownValuesOf } from '../settings.js';

type Values = ReturnType<typeof ownValuesOf<typeof exportFlags>>;

/** `export`: writes blocks and transactions as lines of JSON, from the running daemon or, if none runs, the store. */
export async function exportBlocks(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const values = ownValuesOf(exportFlags, invocation);
  const { from, to, follow, output: path, resume, quiet: isQuiet } = values;
  if (resume && path === null) throw usage('--resume goes on with a file: say which one with --output FILE.');
  if (from !== null && to !== null && from > to) throw usage(`--from ${from} is above --to ${to}.`);
  const { signal } = terminal;
  const progress = exportProgress(terminal, { isQuiet, isAlone: path !== null || !terminal.isTerminal });
  const source = await openExportSource(configOf(invocation, terminal), { follow, signal, progress });
  try {
    const range = await rangeOf(source, values);
    const output =
      path === null ? standardOutput(terminal) : await fileOutput(path, { resume, signal, progress });
    let done: string | undefined;
    try {
      const plan = { ...range, follow, from: from ?? output.tally.whole.first?.height ?? range.from };
      done = await exportTo(plan, { source, output, progress, signal }, values);
    } finally {
      await output.close();
    }
    progress.end(done);
  } finally {
    progress.end();
    await source.close();
  }
  return 'done';
}

/** The heights to export. Expected errors: those of the source; OperatorError `not_found`. */
async function rangeOf(source: ExportSource, values: Values): Promise<{ from: number; to: number }> {
  const { first, latest, ranges } = await source.range();
  const from = values.from ?? first;
  const to = values.to ?? (values.follow ? ENDLESS : latest);
  const outside =
    from < first
      ? `Height ${from} is below the first indexed height.`
      : values.follow || Math.max(from, to) <= latest
        ? undefined
        : `Height ${Math.max(from, to)} is not yet indexed: give a lower --to, or wait for it with --follow.`;
  const indexed = `Indexed are heights ${rangesInWords(ranges)}`;
  if (outside !== undefined) throw new OperatorError('not_found', `${outside} ${indexed}.`);
  const holes = missingIn({ from, to: Math.min(to, latest) }, ranges);
  if (holes.length === 0) return { from, to };
  throw new OperatorError(
    'not_found',
    `Between --from and --to, nothing is indexed at ${rangesInWords(holes)}. ${indexed}: give heights of one range, ` +
      'or have the hole filled in first.',
  );
}

/** Returns the closing message; none when nobody reads any more. */
async function exportTo(
  plan: ExportPlan,
  parts: ExportParts,
  { output: path, to }: Values,
): Promise<string | undefined> {
  const { source, output } = parts;
  const { tally } = output;
  const { first, last } = tally.whole;
  const file = named(path ?? '');
  const origin = { ...source, from: plan.from };
  if (first !== undefined && last !== undefined) {
    if (first.height !== plan.from) {
      throw usage(`${file} begins at height ${first.height}, not at --from ${plan.from}.`);
    }
    if (to !== null && last.height > to) {
      throw usage(`${file} goes to height ${last.height} already, which is above --to ${to}.`);
    }
    await checkSame(last, source);
  }
  if (tally.isClosed && last?.height === plan.to) {
    if (tally.isClosedRightly(origin)) return `${file} is complete: ${phrase(output)}.`;
    const message = `${file} is not what its closing line says: it was changed since it was written. Export it anew.`;
    throw new OperatorError('damage', message);
  }
  await output.cutToWhole();
  const isTaken =
    (await runExport(plan, parts)) && (await output.write(Buffer.from(tally.closingLine(origin))));
  return isTaken ? `exported ${phrase(output)} from ${source.name}` : undefined;
}

function usage(message: string): OperatorError {
  return new OperatorError('usage', message);
}

function phrase({ tally }: ExportOutput): string {
  const { first, last, blocks, transactions } = tally.whole;
  if (first === undefined || last === undefined) return 'no block';
  const counts = `${formatCount(blocks)} blocks, ${formatCount(transactions)} transactions`;
  return `heights ${first.height} to ${last.height}: ${counts}`;
}
