import { childOf, wasAborted } from '../../runtime/index.js';
import type { exportFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { wrongUse, type Run } from '../command.js';
import { directoryOptions } from '../export/directoryOptions.js';
import { exportLines } from '../export/exportLines.js';
import { exportProgress } from '../export/exportProgress.js';
import { openExportSource } from '../export/exportSource.js';
import { exportToDirectory } from '../export/exportToDirectory.js';
import { explained } from '../export/partFiles.js';

export const exportBlocks: Run<typeof exportFlags> = async (invocation, terminal) => {
  const { flags } = invocation;
  const { from, to, output: path, resume, quiet: isQuiet } = flags;
  if (resume && path === null) throw wrongUse('--resume continues a file. Add --output FILE.');
  if (from !== null && to !== null && from > to)
    throw wrongUse(`--from ${from} is above --to ${to}. Lower --from, or raise --to.`);
  const options = directoryOptions(flags);
  const ending = childOf(terminal.signal);
  const progress = exportProgress(terminal, { isQuiet, isAlone: path !== null || !terminal.isTerminal });
  const loaded = await configOf(invocation, terminal);
  const source = await openExportSource(loaded, flags, { signal: ending.signal, progress });
  let isWaiting = flags.follow;
  const range = () => source.range().finally(() => (isWaiting &&= ending.signal.aborted));
  const parts = { source: { ...source, range }, progress, signal: ending.signal };
  try {
    const write = () =>
      options === undefined || path === null
        ? exportLines(flags, terminal, parts)
        : exportToDirectory(path, flags, options, parts);
    progress.end(await (path === null ? write() : explained(path, write)));
  } catch (error) {
    // Ended while it waits for the first height, with nothing to report.
    if (!isWaiting || !wasAborted(error, ending.signal)) throw error;
  } finally {
    // Ends the read ahead of the next page, which would still report that it waits for the daemon.
    ending.abort();
    progress.end();
    await source.close?.();
  }
  return 'done';
};
