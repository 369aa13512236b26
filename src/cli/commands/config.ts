import { loadFileChecks } from '../../app/index.js';
import { configurationReference, daemonSettings, type Setting } from '../../config/index.js';
import { maskedEndpoint, withoutCredentials, withoutUrlPaths } from '../../runtime/index.js';
import { wrongUse, type Run } from '../command.js';
import { configActions } from '../arguments/flags.js';
import { checkEndpoints, configOf } from '../arguments/settings.js';

export const config: Run = async (invocation, terminal) => {
  const action = configActions.find((name) => name === invocation.positionals[0]);
  if (action === undefined)
    throw wrongUse('Say what to do: flow-collection-indexer config print, check or docs.');
  if (action === 'docs') {
    terminal.out(configurationReference(daemonSettings) + '\n');
    return 'done';
  }
  const loaded = await configOf(invocation, terminal);
  if (action === 'check') {
    checkEndpoints(loaded);
    const { checkSecretFiles } = await loadFileChecks();
    await checkSecretFiles(loaded.config);
    terminal.out('The configuration is valid.\n');
    return 'done';
  }
  const { effective, origins } = loaded;
  const width = Math.max(...Object.keys(effective).map((key) => key.length));
  for (const [key, { format }] of Object.entries<Setting>(daemonSettings)) {
    const value = masked(effective[key], format.isSensitive === true);
    terminal.out(`${key.padEnd(width)}  ${JSON.stringify(value)}  (${origins[key] ?? 'default'})\n`);
  }
  return 'done';
};

/** Addresses may contain credentials, which are never printed. */
function masked(value: unknown, isSensitive: boolean): unknown {
  if (Array.isArray(value)) return value.map((each) => masked(each, isSensitive));
  if (typeof value !== 'string') return value;
  return isSensitive ? maskedEndpoint(value) : withoutCredentials(withoutUrlPaths(value));
}
