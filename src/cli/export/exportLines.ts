import { lstat, rm } from 'node:fs/promises';
import { exportedLines } from '../../api/index.js';
import { isAbort, named, OperatorError, orAborted } from '../../runtime/index.js';
import type { ExportFlags } from '../arguments/flags.js';
import { wrongUse, type Terminal } from '../command.js';
import { checkNotBeyond, checkSame, exportRange, inWords, pagesOf } from './exportSource.js';
import type { ExportParts } from './exportSource.js';
import { closeTheSame, readExport, tallyExport, type ExportTally } from './tallyExport.js';
import { transactionsIn } from './TransactionRow.js';
import { openLocked } from './partFiles.js';

/**
 * Writes lines of JSON to standard output, or to a file, from where it ends; with `follow` until a signal, which is a normal end
 * then. Returns the closing message; none when the reader has gone. Expected errors: those of the source and the system;
 * OperatorError (`usage`, `damage`, `foreign`, `storage`); without `follow`, the signal's abort reason.
 */
export async function exportLines(
  flags: ExportFlags,
  terminal: Terminal,
  parts: ExportParts,
): Promise<string | undefined> {
  const { progress, signal, source } = parts;
  const { follow, output: path } = flags;
  const tally = tallyExport();
  const output =
    path === null ? undefined : await fileOutput(path, { ...parts, resume: flags.resume, tally });
  const write = (bytes: Uint8Array): Promise<boolean> => (output ?? terminal).write(bytes);
  try {
    const [first, last, file] = [tally.first(), tally.last(), named(path ?? '')];
    if (first !== undefined && flags.from !== null && first.height !== flags.from)
      throw wrongUse(`${file} begins at height ${first.height}, not at --from ${flags.from}.`);
    if (last !== undefined) checkNotBeyond(file, last.height, flags.to);
    // Of the blocks in the file, the index needs only the last one.
    const range = await exportRange(source, flags, last && { from: last.height, to: last.height });
    if (last !== undefined) await checkSame(last, source);
    const from = first?.height ?? range.from;
    const said = () => inWords({ from, to: tally.last()?.height ?? from, ...tally.sums() });
    if (output?.closing !== undefined && last !== undefined) {
      // Also before it goes on: a new closing line would vouch for the change.
      if (!closeTheSame(output.closing, tally.closingLine(source.chainId, from))) {
        const message = `${file} does not match its closing line: it was changed after it was written. Export it again.`;
        throw new OperatorError('damage', message);
      }
      if (last.height === range.to) return `${file} is complete: ${said()}.`;
    }
    if (flags.resume) await output?.cutToWhole();
    try {
      const left = { from: last === undefined ? from : last.height + 1, to: range.to };
      for await (const page of pagesOf(source, left, last)) {
        const lines = page.map((entry) => {
          const bytes = Buffer.from(exportedLines(entry).join(''));
          const { height, id } = entry.block;
          const collections = entry.collections.length;
          tally.add({ height, id, collections, transactions: transactionsIn(entry) }, [bytes]);
          return bytes;
        });
        const written = write(Buffer.concat(lines));
        // A reader that has stalled must not hold up the end; but with `follow` the closing line still has to be written.
        if (!(await (follow ? written : orAborted(written, signal)))) return undefined;
        progress.at(tally.last()?.height ?? from, range.to, tally.sums().transactions);
      }
    } catch (error) {
      if (!follow || !signal.aborted || !isAbort(error)) throw error;
    }
    const isComplete = await write(Buffer.from(tally.closingLine(source.chainId, from)));
    return isComplete ? `exported ${said()} from ${source.name}` : undefined;
  } finally {
    await output?.close();
  }
}

const READ_BYTES = 1024 * 1024;

/**
 * Opens and locks a file, creating it if needed. With `resume` it is read to its end and tallied, but not changed yet. Expected
 * errors: those of the system, also of what it returns; OperatorError (`usage`: it cannot be resumed, or is not empty;
 * `storage`); the signal's abort reason.
 */
async function fileOutput(
  path: string,
  parts: ExportParts & { readonly resume: boolean; readonly tally: ExportTally },
) {
  const { progress, resume, signal, tally } = parts;
  const name = named(path);
  const isNew = (await lstat(path).catch(() => undefined)) === undefined;
  const opened = await openLocked(path, resume ? 'a+' : 'a');
  const { about, handle } = opened;
  const close = async (): Promise<void> => {
    try {
      if (about.isFile()) await handle.sync();
      if (isNew && (await handle.stat()).size === 0) await rm(path);
    } finally {
      await opened.close();
    }
  };
  try {
    if (resume && !about.isFile()) throw wrongUse(`${name} is not a regular file: leave --resume out.`);
    if (!resume && about.isFile() && about.size > 0n)
      throw wrongUse(`The file ${name} is not empty. Add --resume to continue it, or choose another one.`);
    const held = readExport(name, tally);
    for (let position = 0; resume;) {
      signal.throwIfAborted();
      const piece = Buffer.allocUnsafe(READ_BYTES);
      const { bytesRead } = await handle.read(piece, 0, READ_BYTES, position);
      if (bytesRead === 0) break;
      held.add(piece.subarray(0, bytesRead));
      position += bytesRead;
      progress.scanned(position / Number(about.size));
    }
    return {
      /** The closing line that it has already. */
      closing: held.closing(),
      cutToWhole: () => handle.truncate(tally.sums().bytes),
      write: (bytes: Uint8Array) => handle.appendFile(bytes).then(() => true),
      /** Resolves when everything is on disk; a new file that nothing was written to is removed. */
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
