import { runDaemon } from '../app/index.js';
import { daemonSettings } from '../config/index.js';
import type { Command } from './command.js';
import { checkEndpoints, configOf } from './settings.js';

/** `start`: the daemon, until it is stopped or has indexed its stop height. */
export const startCommand: Command = {
  name: 'start',
  summary: 'Run the daemon.',
  positionals: '',
  maxPositionals: 0,
  settings: daemonSettings,
  ownFlags: {},
  run: (invocation, terminal) => {
    const loaded = configOf(invocation, terminal);
    checkEndpoints(loaded);
    const { config } = loaded;
    return runDaemon(config, {
      stdout: {
        write: (text) => terminal.out(text),
        get columns() {
          return terminal.columns();
        },
      },
      isTerminal: terminal.isTerminal && config.log.format === 'pretty',
      signal: terminal.signal,
    });
  },
};
