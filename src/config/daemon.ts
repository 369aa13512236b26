import { join } from 'node:path';
import { OperatorError } from '../runtime/index.js';
import { frozen, loadSettings, nested, type Loaded, type Sources } from './load.js';
import { networks, PUBLIC_HEAD_AGE_SECONDS, PUBLIC_NODE_RATE_PER_SECOND } from './networks.js';
import { allRoles, daemonSettings, type DaemonValues, type Role } from './settings.js';

/** Unset values of a file or a flag are `undefined` in the configuration. */
type Unset<V> = null extends V ? Exclude<V, null> | undefined : V;
type Head<K> = K extends `${infer H}.${string}` ? H : K;
/** Values by dotted key, as nested groups. */
type Nested<V> = {
  readonly [H in Head<keyof V & string>]: H extends keyof V
    ? Unset<V[H]>
    : Nested<{ [K in keyof V as K extends `${H}.${infer Rest}` ? Rest : never]: V[K] }>;
};

/** The daemon's effective configuration, as settings.ts describes it: all defaults resolved, frozen. */
export type DaemonConfig = Nested<ReturnType<typeof resolved>> & { readonly chainId: string };

/** The configuration and the origin of each value, frozen. */
export interface LoadedConfig extends Omit<Loaded<typeof daemonSettings>, 'values'> {
  readonly config: DaemonConfig;
  /** Effective values by their documented keys; `null`: unset. */
  readonly effective: Readonly<Record<string, unknown>>;
}

/** In place of an access node: there is none, and the peers take its place. */
const NO_NODE = 'none';

/**
 * Loads and resolves the daemon's configuration. Expected errors: OperatorError (`usage` for flags;
 * `configuration` for file, environment and invalid combinations).
 */
export function loadConfig(sources: Sources, terminal: { readonly isTerminal: boolean }): LoadedConfig {
  const { values, ...loaded } = loadSettings(daemonSettings, sources);
  const effective = resolved(values, terminal);
  const config = configured(effective);
  const contradiction = mirrorContradiction(config, values) ?? otherContradiction(config, values.roles);
  if (contradiction !== undefined) throw new OperatorError('configuration', contradiction);
  return frozen({ ...loaded, config, effective });
}

/** The configuration that effective values make. */
export function configured(effective: LoadedConfig['effective']): DaemonConfig {
  const { accessNodes, network } = effective as ReturnType<typeof resolved>;
  const nodes = accessNodes.filter((node) => node !== NO_NODE);
  return nested({ ...effective, accessNodes: nodes, chainId: networks[network].chainId }) as DaemonConfig;
}

/** The values with the defaults that depend on others. */
function resolved(values: DaemonValues, { isTerminal }: { readonly isTerminal: boolean }) {
  const network = networks[values.network];
  const isOwnNode = values.accessNodes.length > 0;
  const isMirror = values.accessNodes.includes(NO_NODE);
  const accessNodes = isOwnNode ? values.accessNodes : network.accessNodes;
  return {
    ...values,
    accessNodes,
    dataDir: values.dataDir ?? join('data', values.network),
    roles: allRoles.filter((role) => values.roles?.includes(role) ?? true),
    maxProcessing: values.maxProcessing ?? values.window,
    'edi.enabled': values['edi.enabled'] && !isMirror,
    'edi.nodes': values['edi.nodes'].length > 0 || isMirror ? values['edi.nodes'] : accessNodes,
    'access.ratePerSecond':
      values['access.ratePerSecond'] ?? (network.isPublic && !isOwnNode ? PUBLIC_NODE_RATE_PER_SECOND : 0),
    'ready.maxHeadAgeSeconds':
      values['ready.maxHeadAgeSeconds'] ?? (network.isPublic ? PUBLIC_HEAD_AGE_SECONDS : 0),
    'log.format': values['log.format'] ?? (isTerminal ? ('pretty' as const) : ('json' as const)),
  };
}

/**
 * What is wrong, and what to change, if two ports of a daemon are the same, or it would call itself; otherwise `undefined`. This
 * does not matter to commands that only call a daemon.
 */
export function clashOfPorts(config: DaemonConfig): string | undefined {
  const { accessNodes, api, edi, metrics, peers, roles } = config;
  const own = plainHost(api.host);
  const ports = Object.entries({
    ...(roles.includes('api') && { 'api.port': api.port, 'api.grpcPort': api.grpcPort }),
    ...(plainHost(metrics.host) === own && { 'metrics.port': metrics.port }),
  });
  for (const [index, [key, port]] of ports.entries()) {
    const [other] = ports.slice(index + 1).find(([, each]) => each === port && port !== 0) ?? [];
    if (other !== undefined)
      return `${key} and ${other} are both ${port}, and each needs a port of its own. Change one of them; 0 takes any free port.`;
  }
  if (!roles.includes('api')) return undefined;
  for (const [key, nodes] of Object.entries({ accessNodes, 'edi.nodes': edi.nodes, peers }))
    for (const node of nodes) {
      const [, host = '', port] = /^(?:\w+:\/\/)?\[?(.*?)\]?:(\d+)\/?$/.exec(node) ?? [];
      const place = plainHost(host);
      const isOwn = place === own || (place === '127.0.0.1' && /^(?:0\.0\.0\.0|::)$/.test(own));
      if (isOwn && port === String(api.grpcPort))
        return `${key} names the gRPC port of this daemon itself (${place}:${port}), which has only what others give it. Name another node, or choose another --api-grpc-port.`;
    }
  return undefined;
}

function plainHost(host: string): string {
  return host.toLowerCase().replace(/^localhost$/, '127.0.0.1');
}

/** What is wrong with the combination of values, and what to change; `undefined` if nothing is. */
function mirrorContradiction({ peers }: DaemonConfig, given: DaemonValues): string | undefined {
  if (!given.accessNodes.includes(NO_NODE)) return undefined;
  const { length } = given.accessNodes;
  if (length > 1)
    return `accessNodes names none and ${length - 1} more: with none, everything comes from other indexers (peers). Drop --access-node none, or the others.`;
  if (peers.length === 0)
    return 'accessNodes is none, so that everything comes from other indexers, but peers names none of those. Add --peer HOST:PORT, or name an --access-node.';
  if (given.ediOnly || given['edi.nodes'].length > 0)
    return 'accessNodes is none, so that everything comes from other indexers (peers), which have no execution data. Drop --edi-only and --edi-node, or name an --access-node.';
  return undefined;
}

function otherContradiction(config: DaemonConfig, givenRoles: readonly Role[] | null): string | undefined {
  const { api, backfill, edi, ediOnly, peers, requester, roles, startHeight, stopHeight, store } = config;
  const { certificateFile, clientCaFile, keyFile } = api.tls;
  const isPlain = certificateFile === undefined;
  if (ediOnly && !edi.enabled)
    return 'ediOnly takes collections from the execution-data stream alone, but edi.enabled is false, so nothing could ever be indexed. Remove --no-edi (or set edi.enabled to true), or drop --edi-only.';
  if (ediOnly && peers.length > 0)
    return `ediOnly takes collections from the execution-data stream alone, but peers names other indexers to take them from (${peers.length}). Drop --edi-only (the peers spare the access nodes already), or leave --peer out.`;
  if (backfill.plan !== undefined && !roles.includes('backfill'))
    return `backfill.plan (${backfill.plan}) is for a process that fills in history, but roles (${roles.join(', ')}) leave that out. Add the role backfill, or drop --backfill and use the command "backfill plan".`;
  if (config.fromSnapshot !== undefined && store !== undefined)
    return 'fromSnapshot begins a store in the data directory, but the index is in a database (store). Restore the snapshot to a directory and "migrate" that, or drop --from-snapshot.';
  if (api.store !== undefined && store === undefined)
    return 'api.store names a replica of the database that holds the index, but no such database is given. Add --store postgres://host/database, or leave --api-store out.';
  if (config.proof.finality === 'proven' && config.proof.mode === 'off')
    return 'proof.finality is proven, but proof.mode is off, so nothing would ever be proven, and nothing could be read. Remove --proof-mode off, or set --proof-finality reported.';
  if (isPlain && keyFile !== undefined)
    return 'api.tls.keyFile is given but api.tls.certificateFile is not, so the ports would speak plain text. Add --api-tls-certificate-file FILE, or leave --api-tls-key-file out.';
  if (isPlain && clientCaFile !== undefined)
    return 'api.tls.clientCaFile is given but api.tls.certificateFile is not, so the ports would speak plain text. Add --api-tls-certificate-file FILE, or leave --api-tls-client-ca-file out.';
  if (requester.backoffMinMs > requester.backoffMaxMs)
    return `requester.backoffMinMs (${requester.backoffMinMs}) is above requester.backoffMaxMs (${requester.backoffMaxMs}). Lower the first or raise the second.`;
  if (typeof startHeight === 'number' && stopHeight !== undefined && stopHeight < startHeight)
    return `stopHeight (${stopHeight}) is below startHeight (${startHeight}). Raise the first or lower the second.`;
  if (givenRoles !== null && store === undefined)
    return `roles (${roles.join(', ')}) divide the work among processes that share a database, but no store is given, so this process has to do all of it. Add --store postgres://host/database, or leave --roles out.`;
  return undefined;
}
