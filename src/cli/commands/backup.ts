import { resolve } from 'node:path';
import { backupStoreOf } from '../../app/index.js';
import { formatCount } from '../../observability/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import { rangesInWords } from '../../storage/index.js';
import type { Invocation, Terminal } from '../command.js';
import { backupFlags, ownValuesOf } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';

const MIB = 1024 * 1024;

/** `backup`: copies the store, which a daemon may be using. */
export async function backup(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const { to } = ownValuesOf(backupFlags, invocation);
  if (to === null) throw new OperatorError('usage', 'Say where the copy is to be: backup --to DIR.');
  const { config } = await configOf(invocation, terminal);
  const { coverage, copiedBytes, linkedBytes, tables } = await backupStoreOf(config, resolve(to));
  const what = coverage.length === 0 ? 'It holds no height yet' : `Heights ${rangesInWords(coverage)}`;
  const linked = linkedBytes === 0 ? '' : `, ${inMib(linkedBytes)} MiB as hard links`;
  terminal.out(
    `Copied to ${to}. ${what}; ${formatCount(tables)} tables${linked}, ${inMib(copiedBytes)} MiB copied.\n` +
      `"verify --data-dir ${to}" checks every block of it.\n`,
  );
  return 'done';
}

function inMib(bytes: number): string {
  return formatCount(Math.ceil(bytes / MIB));
}
