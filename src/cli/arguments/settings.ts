import { parseEndpoint } from '../../access/index.js';
import { checkDatabaseUrls } from '../../app/index.js';
import { clashOfPorts, loadConfig, type LoadedConfig } from '../../config/index.js';
import { OperatorError, type ExitReason } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';

const NAMED_LINKS = 3;

/**
 * Loads the configuration of a command with the URLs of databases checked, and warns of variables that look like ours and
 * are not. Expected errors: OperatorError `usage`, `configuration`.
 */
export async function configOf(invocation: Invocation, terminal: Terminal): Promise<LoadedConfig> {
  const loaded = configAgain(invocation, terminal);
  const { links } = loaded;
  if (links.length > 0) {
    const more = links.length > NAMED_LINKS ? ', …' : '';
    terminal.err(
      `Ignored environment variables (${links.length}: ${links.slice(0, NAMED_LINKS).join(', ')}${more}). ` +
        'Kubernetes sets them for a Service, or Docker for a linked container, that is called fci…; they configure nothing here. ' +
        'To be rid of them, set enableServiceLinks: false in the pod, or give the Service or the container another name.\n',
    );
  }
  await checkDatabases(loaded);
  return loaded;
}

/** Loads it without that warning and without checking databases, as SIGHUP does. Expected errors: as `configOf`. */
export function configAgain({ configFile, written }: Invocation, terminal: Terminal): LoadedConfig {
  const { environment } = terminal;
  return loadConfig({ file: configFile, environment, flags: written }, terminal);
}

/** Checks the URLs of databases, without connecting. Expected errors: OperatorError `usage` for a flag, else `configuration`. */
export async function checkDatabases(loaded: LoadedConfig): Promise<void> {
  const { store, api } = loaded.config;
  await checkDatabaseUrls({ store, 'api.store': api.store }, (key) => exitFor(loaded, key));
}

/**
 * Checks endpoints and ports before anything is opened, and returns what it was given. Expected errors: OperatorError `usage` for a
 * flag, else `configuration`.
 */
export function checkEndpoints(loaded: LoadedConfig): LoadedConfig {
  const { config, places } = loaded;
  const lists = { accessNodes: config.accessNodes, 'edi.nodes': config.edi.nodes, peers: config.peers };
  for (const [key, endpoints] of Object.entries(lists)) {
    try {
      endpoints.forEach(parseEndpoint);
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      const message = `Wrong value for ${places[key] ?? key}: ${error.message}`;
      throw new OperatorError(exitFor(loaded, key), message, { cause: error });
    }
  }
  const clash = clashOfPorts(config);
  if (clash !== undefined) throw new OperatorError('configuration', clash);
  return loaded;
}

function exitFor({ origins }: LoadedConfig, key: string): ExitReason {
  return origins[key] === 'flag' ? 'usage' : 'configuration';
}
