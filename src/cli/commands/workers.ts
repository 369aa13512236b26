import { workersOf } from '../../app/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';
import { ownValuesOf, workersFlags } from '../arguments/flags.js';
import { renderWorkers } from '../output/workersPage.js';
import { configOf } from '../arguments/settings.js';

/** `workers`: the processes that share a database. */
export async function workers(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const { json } = ownValuesOf(workersFlags, invocation);
  const { config } = await configOf(invocation, terminal);
  const found = await workersOf(config);
  terminal.out(json ? `${JSON.stringify(found)}\n` : renderWorkers(found));
  return 'done';
}
