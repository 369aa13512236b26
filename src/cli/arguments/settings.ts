import { parseEndpoint } from '../../access/index.js';
import { daemonSettings, flagOf, loadConfig } from '../../config/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';

/** Loads the configuration of a command. Expected errors: OperatorError `usage`, `configuration`. */
export function configOf(invocation: Invocation, terminal: Terminal): LoadedConfig {
  return loadConfig(
    { file: invocation.configFile, environment: terminal.environment, flags: invocation.settingFlags },
    terminal,
  );
}

/**
 * Checks endpoints before anything is opened. Expected errors: OperatorError `usage` for a flag, else
 * `configuration`.
 */
export function checkEndpoints({ config, origins }: LoadedConfig): void {
  const lists = [
    ['accessNodes', config.accessNodes],
    ['edi.nodes', config.edi.nodes],
    ['peers', config.peers],
  ] as const;
  for (const [key, endpoints] of lists) {
    try {
      endpoints.forEach(parseEndpoint);
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      const isFlag = origins[key] === 'flag';
      const name = isFlag ? `--${flagOf(key, daemonSettings[key])}` : key;
      throw new OperatorError(
        isFlag ? 'usage' : 'configuration',
        `Wrong value for ${name}: ${error.message}`,
        {
          cause: error,
        },
      );
    }
  }
}
