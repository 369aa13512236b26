import { formatCount } from '../../observability/index.js';
import { named, OperatorError } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';
import { directoryOptions } from '../export/directory/directoryOptions.js';
import { ExportDirectory } from '../export/directory/ExportDirectory.js';
import { exportToDirectory } from '../export/directory/exportToDirectory.js';
import type { DirectoryOptions } from '../export/directory/exportToDirectory.js';
import { fileOutput, standardOutput } from '../export/lines/exportOutput.js';
import type { ExportOutput } from '../export/lines/exportOutput.js';
import { checkSame } from '../export/source/checkSame.js';
import { exportProgress } from '../export/source/exportProgress.js';
import { exportRange } from '../export/source/exportRange.js';
import { openExportSource } from '../export/source/exportSource.js';
import { runExport } from '../export/lines/runExport.js';
import type { ExportParts, ExportPlan } from '../export/lines/runExport.js';
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

type Parts = Omit<ExportParts, 'output'>;

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

function usage(message: string): OperatorError {
  return new OperatorError('usage', message);
}

function phrase({ tally }: ExportOutput): string {
  const { first, last, blocks, transactions } = tally.whole;
  if (first === undefined || last === undefined) return 'no block';
  const counts = `${formatCount(blocks)} blocks, ${formatCount(transactions)} transactions`;
  return `heights ${first.height} to ${last.height}: ${counts}`;
}
