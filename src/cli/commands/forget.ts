import { forgetAccountsOf } from '../../app/index.js';
import { formatCount } from '../../observability/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';
import { forgetFlags, ownValuesOf } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';

/** `forget`: deletes the account index of a store. No daemon may be running on it. */
export async function forget(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const { yes } = ownValuesOf(forgetFlags, invocation);
  if (invocation.positionals[0] !== 'accounts') {
    throw new OperatorError('usage', 'Say what to forget: flow-collection-indexer forget accounts --yes.');
  }
  if (!yes) {
    throw new OperatorError('usage', 'This forgets the account index of the store. Add --yes to do it.');
  }
  const { config } = await configOf(invocation, terminal);
  const entries = await forgetAccountsOf(config);
  terminal.out(
    entries === undefined
      ? 'The store has no account index: nothing to forget.\n'
      : `Forgot the account index: ${formatCount(entries)} entries.\n`,
  );
  return 'done';
}
