import { forgetAccountsOf } from '../app/index.js';
import { daemonSettings } from '../config/index.js';
import { formatCount } from '../observability/index.js';
import { OperatorError } from '../runtime/index.js';
import type { Command } from './command.js';
import { configOf, ownValuesOf, storeSettings } from './settings.js';

const ownFlags = {
  yes: { doc: 'Do it: nothing is asked.', format: daemonSettings['edi.enabled'].format, default: false },
} as const;

/** `forget`: takes a kept account index away. Works on the store, so no daemon may be running on it. */
export const forgetCommand: Command = {
  name: 'forget',
  summary: 'Drop the account index of a store. No daemon may be running on it.',
  details:
    'Blocks, collections and transactions stay. A daemon that is started with --index-accounts builds the index anew.\n' +
    'Ended on the way, it leaves a sound store: say it again to go on.',
  positionals: 'accounts',
  maxPositionals: 1,
  settings: storeSettings,
  ownFlags,
  run: async (invocation, terminal) => {
    const { yes } = ownValuesOf(ownFlags, invocation);
    if (invocation.positionals[0] !== 'accounts') {
      throw new OperatorError('usage', 'Say what to forget: flow-collection-indexer forget accounts --yes.');
    }
    if (!yes) {
      throw new OperatorError('usage', 'This forgets the account index of the store. Add --yes to do it.');
    }
    const { config } = configOf(invocation, terminal);
    const entries = await forgetAccountsOf(config);
    terminal.out(
      entries === undefined
        ? 'The store has no account index: nothing to forget.\n'
        : `Forgot the account index: ${formatCount(entries)} entries.\n`,
    );
    return 'done';
  },
};
