import type { StatusDocument } from '../api/index.js';
import { askDaemon, noDaemon } from './client.js';
import type { Command } from './command.js';
import { configOf, daemonAddressSettings, ownValuesOf, toggle } from './settings.js';
import { renderStatus } from './statusPage.js';
import { watchStatus } from './watch.js';

const ownFlags = {
  watch: toggle('Ask again every second: a live page on a terminal (q ends it), otherwise a line each time.'),
  json: toggle('Print the daemon’s own document, one per line.'),
} as const;

/** `status`: what a running daemon is doing, once or live. */
export const statusCommand: Command = {
  name: 'status',
  summary: 'Ask a running daemon what it is doing, and why.',
  positionals: '',
  maxPositionals: 0,
  settings: daemonAddressSettings,
  ownFlags,
  run: async (invocation, terminal) => {
    const { watch, json } = ownValuesOf(ownFlags, invocation);
    const loaded = configOf(invocation, terminal);
    if (watch) {
      await watchStatus({ json }, { loaded, terminal });
      return 'done';
    }
    const answer = await askDaemon(loaded, '/status');
    if (answer === undefined) throw noDaemon(loaded);
    terminal.out(json ? JSON.stringify(answer.body) + '\n' : renderStatus(answer.body as StatusDocument));
    return 'done';
  },
};
