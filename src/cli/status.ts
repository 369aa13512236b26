import type { StatusDocument } from '../api/index.js';
import { askDaemon, noDaemon } from './client.js';
import type { ExitReason } from '../runtime/index.js';
import type { Invocation, Terminal } from './command.js';
import { statusFlags } from './flags.js';
import { configOf, ownValuesOf } from './settings.js';
import { renderStatus } from './statusPage.js';
import { watchStatus } from './watch.js';

/** `status`: what a running daemon is doing, once or live. */
export async function status(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const { watch, json } = ownValuesOf(statusFlags, invocation);
  const loaded = configOf(invocation, terminal);
  if (watch) {
    await watchStatus({ json }, { loaded, terminal });
    return 'done';
  }
  const answer = await askDaemon(loaded, '/status');
  if (answer === undefined) throw noDaemon(loaded);
  terminal.out(json ? JSON.stringify(answer.body) + '\n' : renderStatus(answer.body as StatusDocument));
  return 'done';
}
