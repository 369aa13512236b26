import { formatCount } from '../../observability/index.js';
import { isAbort, named, OperatorError, orAborted } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';
import { directoryOptions } from '../export/directoryOptions.js';
import { ExportDirectory } from '../export/ExportDirectory.js';
import { exportProgress } from '../export/exportProgress.js';
import type { ExportProgress } from '../export/exportProgress.js';
import { checkSame, exportRange, openExportSource } from '../export/exportSource.js';
import type { ExportSource } from '../export/exportSource.js';
import { exportToDirectory } from '../export/exportToDirectory.js';
import type { DirectoryOptions } from '../export/exportToDirectory.js';
import { fileOutput, firstBlockOf, standardOutput } from '../export/ExportTally.js';
import type { ExportOutput } from '../export/ExportTally.js';
import { exportFlags, ownValuesOf } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';

type Values = ReturnType<typeof ownValuesOf<typeof exportFlags>>;

/**
 * `export`: writes blocks and transactions, as lines of JSON or as files of other formats, from the running daemon or, if none
 * runs, the store.
 */
export async function exportBlocks(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const values = ownValuesOf(exportFlags, invocation);
  const { from, to, follow, output: path, resume, quiet: isQuiet } = values;
  if (resume && path === null) throw usage('--resume continues a file. Add --output FILE.');
  if (from !== null && to !== null && from > to)
    throw usage(`--from ${from} is above --to ${to}. Lower --from, or raise --to.`);
  const options = directoryOptions(values);
  const { signal } = terminal;
  const progress = exportProgress(terminal, { isQuiet, isAlone: path !== null || !terminal.isTerminal });
  const source = await openExportSource(await configOf(invocation, terminal), { follow, signal, progress });
  const parts = { source, progress, signal };
  try {
    const done =
      options === undefined || path === null
        ? await exportLines(values, terminal, parts)
        : await exportFiles(values, options, { ...parts, path });
    progress.end(done);
  } finally {
    progress.end();
    await source.close();
  }
  return 'done';
}

interface ExportPlan {
  readonly from: number;
  readonly to: number;
  /** Runs until `to` or a signal; both are a normal end. */
  readonly follow: boolean;
}

interface Parts {
  readonly source: ExportSource;
  readonly progress: ExportProgress;
  readonly signal: AbortSignal;
}

/** Returns the closing message; none when the reader has gone. */
async function exportLines(values: Values, terminal: Terminal, parts: Parts): Promise<string | undefined> {
  const { output: path, resume } = values;
  const range = await exportRange(parts.source, values);
  const output = path === null ? standardOutput(terminal) : await fileOutput(path, { ...parts, resume });
  try {
    const from = values.from ?? output.tally.whole.first?.height ?? range.from;
    return await exportTo({ ...range, follow: values.follow, from }, { ...parts, output }, values);
  } finally {
    await output.close();
  }
}

/** Returns the closing message. */
async function exportFiles(
  values: Values,
  options: DirectoryOptions,
  { path, ...parts }: Parts & { readonly path: string },
): Promise<string> {
  const directory = await ExportDirectory.open(path, values);
  try {
    return await exportToDirectory(values, options, { ...parts, directory });
  } finally {
    await directory.close();
  }
}

/** Returns the closing message; none when the reader has gone. */
async function exportTo(
  plan: ExportPlan,
  parts: Parts & { readonly output: ExportOutput },
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
      throw usage(
        `${file} goes to height ${last.height} already, which is above --to ${to}. Raise --to, or leave it out.`,
      );
    }
    await checkSame(last, source);
  }
  if (tally.isClosed && last?.height === plan.to) {
    if (tally.isClosedRightly(origin)) return `${file} is complete: ${phrase(output)}.`;
    const message = `${file} does not match its closing line: it was changed after it was written. Export it again.`;
    throw new OperatorError('damage', message);
  }
  await output.cutToWhole();
  const isComplete =
    (await runExport(plan, parts)) && (await output.write(Buffer.from(tally.closingLine(origin))));
  return isComplete ? `exported ${phrase(output)} from ${source.name}` : undefined;
}

/**
 * Writes blocks page by page, from where the output ends to `to`. While one page is written, only the next is
 * fetched, however slow the reader. Resolves with false when the reader has gone. Expected errors: those of the
 * source and of `checkSame`; OperatorError `storage`; without `follow`, the signal's abort reason.
 */
async function runExport(
  plan: ExportPlan,
  parts: Parts & { readonly output: ExportOutput },
): Promise<boolean> {
  const { source, output, progress, signal } = parts;
  const { tally } = output;
  const nextHeight = (): number => (tally.whole.last?.height ?? plan.from - 1) + 1;
  const ahead = (): Promise<Buffer> | undefined => {
    if (nextHeight() > plan.to) return undefined;
    const page = source.page({ from: nextHeight(), to: plan.to });
    // It may fail while the page before it is still being written.
    page.catch(() => undefined);
    return page;
  };
  try {
    for (let asked = ahead(); asked !== undefined;) {
      const lines = await asked;
      const { last } = tally.whole;
      // The root block of a spork need not name the block below it as its parent.
      if (last !== undefined && firstBlockOf(lines).parentId !== last.id) await checkSame(last, source);
      tally.add(lines);
      asked = ahead();
      const written = output.write(lines);
      // A reader that has stalled must not hold up the end; but with `follow` the closing line still has to be written.
      if (!(await (plan.follow ? written : orAborted(written, signal)))) return false;
      progress.at(nextHeight() - 1, plan.to, tally.whole.transactions);
    }
  } catch (error) {
    if (!plan.follow || !signal.aborted || !isAbort(error)) throw error;
  }
  return true;
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
