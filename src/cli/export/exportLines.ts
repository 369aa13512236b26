import { open } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { formatCount } from '../../observability/index.js';
import { isAbort, isReaderGone, named, OperatorError, orAborted, outputError } from '../../runtime/index.js';
import type { HeightRange } from '../../storage/index.js';
import type { ExportFlags } from '../arguments/flags.js';
import { wrongUse } from '../command.js';
import type { Terminal } from '../command.js';
import { checkNotBeyond, checkSame, exportRange } from './exportSource.js';
import type { ExportParts } from './exportSource.js';
import { NotAnExportError } from './NotAnExportError.js';
import { firstBlockOf, tallyExport } from './tallyExport.js';
import type { ExportTally } from './tallyExport.js';
import { explained, lockFile } from './partFiles.js';

/** Where the lines go. */
interface ExportOutput {
  /** What it holds so far. */
  readonly tally: ExportTally;
  /** Cuts off what follows the last whole block. Expected errors: OperatorError (`storage`). */
  cutToWhole(): Promise<void>;
  /** False: the reader has gone. Expected errors: OperatorError (`storage`). */
  write(bytes: Uint8Array): Promise<boolean>;
  /** Resolves when everything is on disk. Expected errors: OperatorError (`storage`). */
  close(): Promise<void>;
}

/**
 * Writes lines of JSON to standard output, or to a file, from where it ends. Returns the closing message; none when the
 * reader has gone. Expected errors: those of the source; OperatorError (`usage`, `damage`, `foreign`, `storage`); without
 * `follow`, the signal's abort reason.
 */
export async function exportLines(
  flags: ExportFlags,
  terminal: Terminal,
  parts: ExportParts,
): Promise<string | undefined> {
  const { source } = parts;
  const range = await exportRange(source, flags);
  const output =
    flags.output === null
      ? standardOutput(terminal)
      : await fileOutput(flags.output, { ...parts, resume: flags.resume });
  try {
    const { tally } = output;
    const { first, last } = tally.whole();
    const plan = { from: flags.from ?? first?.height ?? range.from, to: range.to };
    const file = named(flags.output ?? '');
    const origin = { ...source, from: plan.from };
    if (first !== undefined && last !== undefined) {
      if (first.height !== plan.from)
        throw wrongUse(`${file} begins at height ${first.height}, not at --from ${plan.from}.`);
      checkNotBeyond(file, last.height, flags.to);
      await checkSame(last, source);
    }
    if (tally.isClosed() && last?.height === plan.to) {
      if (tally.isClosedRightly(origin)) return `${file} is complete: ${phrase(tally)}.`;
      const message = `${file} does not match its closing line: it was changed after it was written. Export it again.`;
      throw new OperatorError('damage', message);
    }
    await output.cutToWhole();
    const isComplete =
      (await writeBlocks(plan, flags.follow, output, parts)) &&
      (await output.write(Buffer.from(tally.closingLine(origin))));
    return isComplete ? `exported ${phrase(tally)} from ${source.name}` : undefined;
  } finally {
    await output.close();
  }
}

function phrase({ whole }: ExportTally): string {
  const { first, last, blocks, transactions } = whole();
  if (first === undefined || last === undefined) return 'no block';
  const counts = `${formatCount(blocks)} blocks, ${formatCount(transactions)} transactions`;
  return `heights ${first.height} to ${last.height}: ${counts}`;
}

/**
 * Writes blocks page by page, from where the output ends to `to`. While one page is written, only the next is
 * fetched, however slow the reader. With `follow` it runs until `to` or a signal; both are a normal end. Resolves with
 * false when the reader has gone.
 */
async function writeBlocks(
  plan: HeightRange,
  follow: boolean,
  output: ExportOutput,
  { progress, signal, source }: ExportParts,
): Promise<boolean> {
  const { tally } = output;
  const nextHeight = (): number => (tally.whole().last?.height ?? plan.from - 1) + 1;
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
      const { last } = tally.whole();
      // The root block of a spork need not name the block below it as its parent.
      if (last !== undefined && firstBlockOf(lines).parentId !== last.id) await checkSame(last, source);
      tally.add(lines);
      asked = ahead();
      const written = output.write(lines);
      // A reader that has stalled must not hold up the end; but with `follow` the closing line still has to be written.
      if (!(await (follow ? written : orAborted(written, signal)))) return false;
      progress.at(nextHeight() - 1, plan.to, tally.whole().transactions);
    }
  } catch (error) {
    if (!follow || !signal.aborted || !isAbort(error)) throw error;
  }
  return true;
}

function standardOutput(terminal: Terminal): ExportOutput {
  return {
    tally: tallyExport(),
    cutToWhole: () => Promise.resolve(),
    write: (bytes) => terminal.write(bytes),
    close: () => Promise.resolve(),
  };
}

/**
 * Opens and locks a file, creating it if needed. With `resume` it is read to its end, but not changed yet.
 * Expected errors: OperatorError (`usage`: it cannot be resumed, or is not empty; `storage`); the signal's abort
 * reason.
 */
async function fileOutput(
  path: string,
  parts: ExportParts & { readonly resume: boolean },
): Promise<ExportOutput> {
  const name = named(path);
  const handle = await explained(path, () => open(path, parts.resume ? 'a+' : 'a'));
  const about = await handle.stat();
  let unlock = (): void => undefined;
  const close = async (): Promise<void> => {
    try {
      if (about.isFile()) await explained(path, () => handle.sync());
    } finally {
      await handle.close();
      unlock();
    }
  };
  try {
    const takenMessage = `Another export writes to ${name}. Wait until it ends, or choose another file.`;
    if (about.isFile()) unlock = await lockFile(handle, takenMessage);
    if (parts.resume && !about.isFile()) throw wrongUse(`${name} is not a regular file: leave --resume out.`);
    if (!parts.resume && about.isFile() && about.size > 0)
      throw wrongUse(`The file ${name} is not empty. Add --resume to continue it, or choose another one.`);
    const tally = tallyExport();
    if (parts.resume) await explained(path, () => readAll(handle, tally, parts));
    return {
      tally,
      cutToWhole: async () => {
        if (about.isFile()) await explained(path, () => handle.truncate(tally.whole().bytes));
        tally.cutToWhole();
      },
      write: async (bytes) => {
        try {
          await handle.appendFile(bytes);
          return true;
        } catch (error) {
          if (isReaderGone(error)) return false;
          throw outputError(error, name);
        }
      },
      close,
    };
  } catch (error) {
    await close();
    if (!(error instanceof NotAnExportError)) throw error;
    const message = `The file ${name} cannot be resumed, because it is not an export: ${error.message}. Choose another one.`;
    throw new OperatorError('usage', message, { cause: error });
  }
}

/** How much of a resumed file is read at once. */
const READ_BYTES = 1024 * 1024;

async function readAll(
  handle: FileHandle,
  tally: ExportTally,
  { progress, signal }: ExportParts,
): Promise<void> {
  const { size } = await handle.stat();
  for (let position = 0; ;) {
    signal.throwIfAborted();
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(READ_BYTES), 0, READ_BYTES, position);
    if (bytesRead === 0) return;
    tally.add(buffer.subarray(0, bytesRead));
    position += bytesRead;
    progress.scanned(position / size);
  }
}
