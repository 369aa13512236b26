import type { LoadedConfig } from '../../config/index.js';
import { formatCount } from '../../observability/index.js';
import { named, OperatorError, sleep, systemClock } from '../../runtime/index.js';
import { noDaemon } from '../client.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';
import { continueFile, createFile, scanFile } from '../export/exportFile.js';
import type { ExportOutput } from '../export/exportFile.js';
import { progressOn, silentProgress } from '../export/ExportProgress.js';
import { lockFile } from '../export/FileLock.js';
import type { FileLock } from '../export/FileLock.js';
import { openExportSource } from '../export/ExportSource.js';
import type { ExportSource } from '../export/ExportSource.js';
import { ExportTally } from '../export/ExportTally.js';
import { checkSame, runExport } from '../export/runExport.js';
import { exportFlags } from '../flags.js';
import { configOf, ownValuesOf } from '../settings.js';

/** Between two looks for the first height, with `--follow` on a daemon that has not begun. */
const FIRST_HEIGHT_LOOK_MS = 500;
const ENDLESS = Number.MAX_SAFE_INTEGER;

type Values = ReturnType<typeof ownValuesOf<typeof exportFlags>>;

/** `export`: blocks and transactions as lines of JSON, from the running daemon or, when none runs, from the store. */
export async function exportBlocks(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const values = ownValuesOf(exportFlags, invocation);
  checkFlags(values);
  const loaded = configOf(invocation, terminal);
  const source = await openExportSource(loaded, { needsDaemon: values.follow });
  try {
    await exportFrom(source, values, loaded, terminal);
  } finally {
    await source.close();
  }
  return 'done';
}

function checkFlags({ from, to, output, resume }: Values): void {
  if (resume && output === null) {
    throw new OperatorError('usage', '--resume goes on with a file: say which one with --output FILE.');
  }
  if (from !== null && to !== null && from > to) {
    throw new OperatorError('usage', `--from ${from} is above --to ${to}.`);
  }
}

async function exportFrom(
  source: ExportSource,
  values: Values,
  loaded: LoadedConfig,
  terminal: Terminal,
): Promise<void> {
  const { follow, output: path } = values;
  const { signal } = terminal;
  const gone = (): OperatorError => noDaemon(loaded);
  const indexed = await indexedRange(source, { follow, gone, signal });
  const bounds = { from: values.from ?? indexed.first, to: values.to ?? (follow ? ENDLESS : indexed.latest) };
  const progress = values.quiet
    ? silentProgress
    : progressOn(terminal, { ...bounds, isAlone: path !== null || !terminal.isTerminal });
  let lock: FileLock | undefined;
  try {
    if (values.resume && path !== null) lock = await lockFile(path);
    const scanned =
      values.resume && path !== null
        ? await scanFile(path, { signal, onProgress: (read, of) => progress.scanned(read, of) })
        : new ExportTally();
    const plan = { ...bounds, follow, from: values.from ?? scanned.first ?? bounds.from };
    checkRange(plan, indexed, scanned, values);
    const parts = { source, tally: scanned, progress, signal, gone };
    if (scanned.last !== undefined) await checkSame(scanned.last, plan, { ...parts, output: nowhere });
    if (scanned.closing !== undefined && scanned.last?.height === plan.to) {
      checkClosing(scanned, plan.from, source, path ?? '');
      progress.say(`${named(path ?? '')} is complete: ${phrase(scanned)}.\n`);
      return;
    }
    if (path !== null) lock ??= await lockFile(path);
    const output = await outputOf(path, values, scanned, terminal);
    try {
      if (!(await runExport(plan, { ...parts, output }))) return;
      const closing = scanned.closingLine({
        program: source.program,
        chainId: source.chainId,
        from: plan.from,
      });
      if (!(await output.write(Buffer.from(closing)))) return;
    } finally {
      await output.close();
    }
    progress.close();
    progress.say(`exported ${phrase(scanned)} from ${source.name}\n`);
  } finally {
    lock?.release();
    progress.close();
  }
}

const nowhere: ExportOutput = { write: () => Promise.resolve(true), close: () => Promise.resolve() };

function outputOf(
  path: string | null,
  { resume }: Values,
  scanned: ExportTally,
  terminal: Terminal,
): Promise<ExportOutput> {
  if (path === null) {
    return Promise.resolve({ write: (bytes) => terminal.write(bytes), close: () => Promise.resolve() });
  }
  return resume ? continueFile(path, scanned) : createFile(path);
}

interface Indexed {
  readonly first: number;
  readonly latest: number;
}

/** The heights that can be read; with `follow`, once there are any. */
async function indexedRange(
  source: ExportSource,
  { follow, gone, signal }: { follow: boolean; gone: () => OperatorError; signal: AbortSignal },
): Promise<Indexed> {
  for (;;) {
    const range = await source.range();
    if (range === undefined && !follow) throw gone();
    const { firstIndexed = null, latestIndexed = null } = range ?? {};
    if (firstIndexed !== null && (follow || latestIndexed !== null)) {
      return { first: firstIndexed, latest: latestIndexed ?? firstIndexed - 1 };
    }
    if (!follow) throw new OperatorError('not_found', 'Nothing is indexed yet: there is nothing to export.');
    await sleep(systemClock, FIRST_HEIGHT_LOOK_MS, signal);
  }
}

function checkRange(
  plan: { readonly from: number; readonly to: number; readonly follow: boolean },
  { first, latest }: Indexed,
  scanned: ExportTally,
  { output, to }: Values,
): void {
  const file = named(output ?? '');
  if (scanned.first !== undefined && scanned.first !== plan.from) {
    throw new OperatorError(
      'usage',
      `${file} begins at height ${scanned.first}, not at --from ${plan.from}.`,
    );
  }
  if (scanned.last !== undefined && to !== null && scanned.last.height > to) {
    throw new OperatorError(
      'usage',
      `${file} goes to height ${scanned.last.height} already, which is above --to ${to}.`,
    );
  }
  const outside = (text: string): OperatorError =>
    new OperatorError('not_found', `${text} Indexed are heights ${first} to ${latest}.`);
  if (plan.from < first) throw outside(`Height ${plan.from} is below the first indexed height.`);
  if (plan.follow) return;
  if (plan.from > latest) throw outside(`Height ${plan.from} is not yet indexed.`);
  if (plan.to > latest) {
    throw outside(`Height ${plan.to} is not yet indexed: give a lower --to, or wait for it with --follow.`);
  }
}

/** A complete file is left as it is, once it is known to be what its closing line says. */
function checkClosing(scanned: ExportTally, from: number, { chainId }: ExportSource, path: string): void {
  if (scanned.isClosedRightly({ chainId, from })) return;
  throw new OperatorError(
    'damage',
    `${named(path)} is not what its closing line says: it was changed since it was written. Export it anew.`,
  );
}

function phrase(tally: ExportTally): string {
  const { first, last, blocks, transactions } = tally;
  if (first === undefined || last === undefined) return 'no block';
  return `heights ${first} to ${last.height}: ${formatCount(blocks)} blocks, ${formatCount(transactions)} transactions`;
}
