import { parseEndpoint, proxyFor } from '../access/index.js';
import type { DaemonConfig } from '../config/index.js';
import { formatSize } from '../observability/index.js';
import { hostAndPort, maskedEndpoint } from '../runtime/index.js';
import type { IndexStore } from '../storage/index.js';
import type { DaemonParts } from './health/diagnose.js';
import type { DaemonRecord } from './lifecycle/daemonRecord.js';

/**
 * Announces what the daemon is about to do: to people in five lines, to machines in one line of the log. Prints nothing at a
 * quiet log level.
 */
export function announcePlan(
  config: DaemonConfig,
  parts: Pick<DaemonParts, 'diskWatch' | 'logger' | 'store'> & {
    readonly addresses: Pick<DaemonRecord, 'api' | 'grpc' | 'metrics'>;
    readonly print: (text: string) => void;
  },
): void {
  const { chainId, dataDir, edi, log, network, startHeight, stopHeight } = config;
  const { addresses, store } = parts;
  const nodes = config.accessNodes.map(maskedEndpoint);
  const peers = config.peers.map(maskedEndpoint);
  const feedNodes = edi.enabled ? edi.nodes.map(maskedEndpoint) : [];
  const proxy = proxyInWords(config);
  const meta = store.meta();
  const database = config.store === undefined ? undefined : maskedEndpoint(config.store);
  const freeBytes = parts.diskWatch?.disk()?.freeBytes;
  if (log.format === 'json') {
    const heights =
      meta === undefined
        ? { startHeight }
        : { firstHeight: meta.firstHeight, continuesAt: store.latestIndexedHeight() + 1 };
    const from = { nodes, executionDataNodes: feedNodes, ...(peers.length === 0 ? {} : { peers }), proxy };
    const place = { dataDir, store: database ?? 'leveldb', freeBytes };
    const fields = { network, chainId, ...from, ...heights, stopHeight, ...place, roles: config.roles };
    parts.logger.info({ ...fields, ...addresses }, 'about to index');
    return;
  }
  if (log.level !== 'info' && log.level !== 'debug') return;
  const from = feedNodes.join() === nodes.join() ? 'the same' : some(feedNodes);
  const how = `${config.ediOnly ? 'execution data alone' : 'execution data too'}, from ${from}`;
  const feed = feedNodes.length === 0 ? 'collections by request, no execution data' : how;
  const all = nodes.length === 0 ? 'everything from them' : 'collections from them too';
  const end = stopHeight === undefined ? ', then follows the chain' : `, through ${stopHeight}`;
  const free = freeBytes === undefined ? '' : `, ${formatSize(freeBytes)} free`;
  const record = `as ${config.roles.join(', ')}; this process keeps its record in ${dataDir}`;
  const { api, grpc, metrics } = addresses;
  const isSecure = config.api.tls.certificateFile !== undefined;
  const ports = [
    ...(api === undefined ? [] : [`API http${isSecure ? 's' : ''}://${hostAndPort(api)}/`]),
    ...(grpc === undefined ? [] : [`gRPC ${hostAndPort(grpc)}${isSecure ? ' (TLS)' : ''}`]),
    `metrics http://${hostAndPort(metrics)}/metrics`,
  ];
  const rows: readonly (readonly [name: string, words: string | undefined])[] = [
    ['network', `${network} (${chainId})`],
    ['nodes', nodes.length === 0 ? undefined : `${some(nodes)}; ${feed}`],
    ['peers', peers.length === 0 ? undefined : `${some(peers)}; ${all}`],
    ['proxy', proxy],
    ['heights', heightsInWords(config, store, end)],
    ['data', database === undefined ? dataDir + free : `${database}, ${record}`],
    ['ports', ports.join(', ')],
  ];
  const said = rows.flatMap(([name, words]) => (words === undefined ? [] : [`${name.padEnd(8)} ${words}\n`]));
  parts.print(said.join(''));
}

/** The most nodes that are named. */
const NODES_SHOWN = 3;

function some(names: readonly string[]): string {
  const more = names.length - NODES_SHOWN;
  return `${names.slice(0, NODES_SHOWN).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** Which nodes are called through the proxy of the environment, which may have been set for another program. */
function proxyInWords({ accessNodes, edi, peers }: DaemonConfig): string | undefined {
  const all = [...accessNodes, ...(edi.enabled ? edi.nodes : []), ...peers].map(parseEndpoint);
  const behind = all.filter((endpoint) => proxyFor(endpoint) !== undefined);
  const proxy = behind[0] && proxyFor(behind[0]);
  if (proxy === undefined) return undefined;
  const { address, isUsed, variable } = proxy;
  const names = some([...new Set(behind.map(({ name }) => name))]);
  return isUsed
    ? `${address} (${variable}), for ${names}; no_proxy names those to call directly`
    : `not used: ${variable} names ${address}, and only http:// proxies can be used`;
}

function heightsInWords({ roles, startHeight }: DaemonConfig, store: IndexStore, end: string): string {
  const meta = store.meta();
  const latest = store.latestIndexedHeight();
  const has = latest < (meta?.firstHeight ?? Infinity) ? 'nothing yet' : `${meta?.firstHeight} to ${latest}`;
  if (!roles.includes('live')) return `has ${has}; a process with the role live follows the chain`;
  if (meta !== undefined) return `has ${has}, continues at ${latest + 1}${end}`;
  if (startHeight === 'latest') return `a new index, from the newest finalized block on${end}`;
  if (startHeight === 'root') return `a new index, from the root of the live spork on${end}`;
  return `a new index, from ${startHeight} on${end}`;
}
