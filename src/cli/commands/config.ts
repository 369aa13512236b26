import { checkDatabaseUrls } from '../../app/index.js';
import { configurationReference, daemonSettings } from '../../config/index.js';
import { maskedEndpoint, OperatorError, withoutUrlPaths } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';
import { configActions } from '../arguments/flags.js';
import { checkEndpoints, configOf } from '../arguments/settings.js';

/** The keys whose values are endpoints. */
const endpointKeys: ReadonlySet<string> = new Set([
  'accessNodes',
  'edi.nodes',
  'peers',
  'store',
  'api.store',
]);

/** `config print|check|docs`: the effective configuration, its validation, the reference. */
export async function config(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const action = configActions.find((name) => name === invocation.positionals[0]);
  if (action === undefined) {
    throw new OperatorError('usage', 'Say what to do: flow-collection-indexer config print, check or docs.');
  }
  if (action === 'docs') {
    terminal.out(configurationReference(daemonSettings) + '\n');
    return 'done';
  }
  const loaded = configOf(invocation, terminal);
  if (action === 'check') {
    checkEndpoints(loaded);
    await checkDatabaseUrls(loaded.config);
    terminal.out('The configuration is valid.\n');
    return 'done';
  }
  const { effective, origins } = loaded;
  const printable = Object.fromEntries(
    Object.entries(effective).map(([key, value]) => [key, masked(value, endpointKeys.has(key))]),
  );
  const width = Math.max(...Object.keys(printable).map((key) => key.length));
  for (const [key, value] of Object.entries(printable)) {
    terminal.out(`${key.padEnd(width)}  ${JSON.stringify(value)}  (${origins[key] ?? 'default'})\n`);
  }
  return 'done';
}

/** Addresses may contain credentials, which are never printed. */
function masked(value: unknown, isEndpoint: boolean): unknown {
  if (Array.isArray(value)) return value.map((each) => masked(each, isEndpoint));
  if (typeof value !== 'string') return value;
  return isEndpoint ? maskedEndpoint(value) : withoutUrlPaths(value);
}
