import { rewindStore } from '../app/index.js';
import { MAX_HEIGHT, daemonSettings } from '../config/index.js';
import { OperatorError } from '../runtime/index.js';
import type { Command } from './command.js';
import { configOf, ownValuesOf, storeSettings } from './settings.js';

const ownFlags = {
  to: {
    doc: 'Keep this height and everything below it; forget the rest.',
    format: daemonSettings.stopHeight.format,
    default: null,
    defaultDoc: 'required',
  },
  yes: { doc: 'Do it: nothing is asked.', format: daemonSettings['edi.enabled'].format, default: false },
} as const;

/** `rewind`: forgets everything above a height. Works on the store, so no daemon may be running on it. */
export const rewindCommand: Command = {
  name: 'rewind',
  summary: 'Forget everything above a height. No daemon may be running on the store.',
  positionals: '',
  maxPositionals: 0,
  settings: storeSettings,
  ownFlags,
  run: async (invocation, terminal) => {
    const values = ownValuesOf(ownFlags, invocation);
    const height = values.to;
    if (height === null || height > MAX_HEIGHT) {
      throw new OperatorError(
        'usage',
        'Say which height to keep: flow-collection-indexer rewind --to H --yes.',
      );
    }
    if (!values.yes) {
      throw new OperatorError('usage', `This forgets everything above height ${height}. Add --yes to do it.`);
    }
    const { config } = configOf(invocation, terminal);
    const { from, to } = await rewindStore(config, height);
    terminal.out(`Rewound from height ${from} to ${to}. The daemon goes on at ${to + 1}.\n`);
    return 'done';
  },
};
