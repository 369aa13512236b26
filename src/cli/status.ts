import { renderStatus } from './statusPage.js';
import { daemonSettings } from '../config/index.js';
import type { Setting } from '../config/index.js';
import { isAbort, sleep, systemClock } from '../runtime/index.js';
import type { StatusDocument } from '../api/index.js';
import { askDaemon, noDaemon } from './client.js';
import type { Command } from './command.js';
import { configOf, daemonAddressSettings } from './settings.js';

/** Between two questions of `--watch`. */
const WATCH_INTERVAL_MS = 1_000;

const toggle = (doc: string): Setting<boolean> => ({
  doc,
  format: daemonSettings['edi.enabled'].format,
  default: false,
});

/** `status`: what a running daemon is doing, once or live. */
export const statusCommand: Command = {
  name: 'status',
  summary: 'Ask a running daemon what it is doing, and why.',
  positionals: '',
  maxPositionals: 0,
  settings: daemonAddressSettings,
  ownFlags: {
    watch: toggle('Ask again every second until Ctrl-C.'),
    json: toggle('Print the daemon’s own document, one per line.'),
  },
  run: async (invocation, terminal) => {
    const loaded = configOf(invocation, terminal);
    const json = invocation.ownFlags.get('json')?.at(-1) === 'true';
    const watch = invocation.ownFlags.get('watch')?.at(-1) === 'true';
    let shown = 0;
    for (;;) {
      const answer = await askDaemon(loaded, '/status');
      if (answer === undefined && !(watch && shown > 0)) throw noDaemon(loaded);
      const text =
        answer === undefined
          ? 'The daemon does not answer any more; still asking.\n'
          : json
            ? JSON.stringify(answer.body) + '\n'
            : renderStatus(answer.body as StatusDocument);
      // On a terminal the page is drawn in place; in a pipe pages follow each other.
      terminal.out(watch && terminal.isTerminal && !json ? `\u001b[H\u001b[2J${text}` : text);
      shown += 1;
      if (!watch) return 'done';
      try {
        await sleep(systemClock, WATCH_INTERVAL_MS, terminal.signal);
      } catch (error) {
        if (isAbort(error)) return 'done';
        throw error;
      }
    }
  },
};
