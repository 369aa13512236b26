import { join } from 'node:path';
import { OperatorError } from '../runtime/index.js';
import { loadSettings } from './load.js';
import type { Origin, Sources } from './load.js';
import { networks, PUBLIC_HEAD_AGE_SECONDS, PUBLIC_NODE_RATE_PER_SECOND } from './networks.js';
import type { NetworkName } from './networks.js';
import { allRoles, daemonSettings } from './settings.js';
import type { DaemonValues, Role } from './settings.js';

/** The daemon's effective configuration: all defaults resolved, frozen. */
export interface DaemonConfig {
  readonly network: NetworkName;
  readonly chainId: string;
  readonly accessNodes: readonly string[];
  readonly dataDir: string;
  /** URL of the database that holds the index; `undefined`: LevelDB in `dataDir`. May contain a password. */
  readonly store: string | undefined;
  /** A directory or URL with a copy of a store to begin with. */
  readonly fromSnapshot: string | undefined;
  /** All of them unless a database is shared. */
  readonly roles: readonly Role[];
  readonly startHeight: number | 'root' | 'latest';
  readonly stopHeight: number | undefined;
  readonly window: number;
  readonly maxProcessing: number;
  readonly workersPerHeight: number;
  readonly maxInFlightBytes: number;
  readonly edi: { readonly enabled: boolean; readonly nodes: readonly string[] };
  readonly ediOnly: boolean;
  /** Other indexers that feed this one. */
  readonly peers: readonly string[];
  readonly peerTokenFile: string | undefined;
  readonly access: {
    readonly sporkRoot: number | undefined;
    readonly metadataFile: string | undefined;
    readonly metadataWithoutTls: boolean;
    readonly ratePerSecond: number;
    readonly maxMessageBytes: number;
  };
  readonly requester: {
    readonly concurrency: number;
    readonly timeoutMs: number;
    readonly backoffMinMs: number;
    readonly backoffMaxMs: number;
    readonly unresolvableAfterMs: number;
  };
  readonly backfill: {
    /** In the form of `readHeightsToFill`. */
    readonly plan: string | undefined;
    readonly parallelRanges: number;
    readonly window: number;
  };
  readonly index: { readonly accounts: boolean };
  readonly scrub: { readonly bytesPerSecond: number };
  /** 0 = indexing never pauses, however full the disk is. */
  readonly disk: { readonly minFreeBytes: number };
  readonly api: {
    readonly host: string;
    readonly port: number;
    readonly grpcPort: number | 'off';
    /** URL of the database that readers use in place of `store`. May contain a password. */
    readonly store: string | undefined;
    /** Forward gRPC calls that the index cannot answer to the access nodes. */
    readonly forward: boolean;
    /** Base address of a node's REST interface, without `/v1`. */
    readonly forwardRest: string | undefined;
    /** `*` allows all. */
    readonly corsOrigins: readonly string[];
    readonly ratePerSecondPerAddress: number;
    /** Per port. */
    readonly maxConnections: number;
    /** Files in PEM. Without a certificate, the ports speak plain text. */
    readonly tls: {
      readonly certificateFile: string | undefined;
      readonly keyFile: string | undefined;
      readonly clientCaFile: string | undefined;
    };
    readonly tokensFile: string | undefined;
    readonly tokensFor: 'everything' | 'expensive';
  };
  readonly metrics: { readonly host: string; readonly port: number };
  /** `maxHeadAgeSeconds`: 0 = no limit. */
  readonly ready: { readonly maxLag: number; readonly maxHeadAgeSeconds: number };
  readonly log: { readonly level: 'debug' | 'info' | 'warn' | 'error'; readonly format: 'json' | 'pretty' };
}

/** The configuration and the origin of each value, frozen. */
export interface LoadedConfig {
  readonly config: DaemonConfig;
  /** Effective values by their documented keys. */
  readonly effective: Readonly<Record<string, unknown>>;
  readonly origins: Readonly<Record<string, Origin>>;
  /** Keys that the file sets and the environment or a flag overrides. */
  readonly overridden: readonly string[];
}

/**
 * Loads and resolves the daemon's configuration. Expected errors: OperatorError (`usage` for flags;
 * `configuration` for file, environment and invalid combinations).
 */
export function loadConfig(sources: Sources, terminal: { readonly isTerminal: boolean }): LoadedConfig {
  const { values, origins, overridden } = loadSettings(daemonSettings, sources);
  const config = resolve(values, terminal);
  const contradiction = contradictionIn(config, values.roles);
  if (contradiction !== undefined) throw new OperatorError('configuration', contradiction);
  return Object.freeze({ config, effective: effectiveValues(config), origins, overridden });
}

function resolve(values: DaemonValues, terminal: { readonly isTerminal: boolean }): DaemonConfig {
  const network = networks[values.network];
  const usesPublicNode = values.accessNodes.length === 0 && network.isPublic;
  const accessNodes = Object.freeze(
    values.accessNodes.length > 0 ? [...values.accessNodes] : [...network.accessNodes],
  );
  return Object.freeze({
    network: values.network,
    chainId: network.chainId,
    accessNodes,
    dataDir: values.dataDir ?? join('data', values.network),
    store: values.store ?? undefined,
    fromSnapshot: values.fromSnapshot ?? undefined,
    roles: values.roles ?? Object.freeze([...allRoles]),
    startHeight: values.startHeight,
    stopHeight: values.stopHeight ?? undefined,
    window: values.window,
    maxProcessing: values.maxProcessing ?? values.window,
    workersPerHeight: values.workersPerHeight,
    maxInFlightBytes: values.maxInFlightBytes,
    edi: Object.freeze({
      enabled: values['edi.enabled'],
      nodes: values['edi.nodes'].length > 0 ? values['edi.nodes'] : accessNodes,
    }),
    ediOnly: values.ediOnly,
    peers: values.peers,
    peerTokenFile: values.peerTokenFile ?? undefined,
    access: Object.freeze({
      sporkRoot: values['access.sporkRoot'] ?? undefined,
      metadataFile: values['access.metadataFile'] ?? undefined,
      metadataWithoutTls: values['access.metadataWithoutTls'],
      ratePerSecond: values['access.ratePerSecond'] ?? (usesPublicNode ? PUBLIC_NODE_RATE_PER_SECOND : 0),
      maxMessageBytes: values['access.maxMessageBytes'],
    }),
    requester: Object.freeze({
      concurrency: values['requester.concurrency'],
      timeoutMs: values['requester.timeoutMs'],
      backoffMinMs: values['requester.backoffMinMs'],
      backoffMaxMs: values['requester.backoffMaxMs'],
      unresolvableAfterMs: values['requester.unresolvableAfterMs'],
    }),
    backfill: Object.freeze({
      plan: values['backfill.plan'] ?? undefined,
      parallelRanges: values['backfill.parallelRanges'],
      window: values['backfill.window'],
    }),
    index: Object.freeze({ accounts: values['index.accounts'] }),
    scrub: Object.freeze({ bytesPerSecond: values['scrub.bytesPerSecond'] }),
    disk: Object.freeze({ minFreeBytes: values['disk.minFreeBytes'] }),
    api: Object.freeze({
      host: values['api.host'],
      port: values['api.port'],
      grpcPort: values['api.grpcPort'],
      store: values['api.store'] ?? undefined,
      forward: values['api.forward'],
      forwardRest: values['api.forwardRest'] ?? undefined,
      corsOrigins: values['api.corsOrigins'],
      ratePerSecondPerAddress: values['api.ratePerSecondPerAddress'],
      maxConnections: values['api.maxConnections'],
      tls: Object.freeze({
        certificateFile: values['api.tls.certificateFile'] ?? undefined,
        keyFile: values['api.tls.keyFile'] ?? undefined,
        clientCaFile: values['api.tls.clientCaFile'] ?? undefined,
      }),
      tokensFile: values['api.tokensFile'] ?? undefined,
      tokensFor: values['api.tokensFor'],
    }),
    metrics: Object.freeze({ host: values['metrics.host'], port: values['metrics.port'] }),
    ready: Object.freeze({
      maxLag: values['ready.maxLag'],
      maxHeadAgeSeconds:
        values['ready.maxHeadAgeSeconds'] ?? (network.isPublic ? PUBLIC_HEAD_AGE_SECONDS : 0),
    }),
    log: Object.freeze({
      level: values['log.level'],
      format: values['log.format'] ?? (terminal.isTerminal ? 'pretty' : 'json'),
    }),
  });
}

/** What is wrong with the combination of values, and what to change; `undefined` if nothing is. */
function contradictionIn(config: DaemonConfig, givenRoles: readonly Role[] | null): string | undefined {
  const { api, backfill, peers, requester, roles, startHeight, stopHeight, store } = config;
  if (config.ediOnly && !config.edi.enabled) {
    return (
      'ediOnly takes collections from the execution-data stream alone, but edi.enabled is false, so nothing could ever ' +
      'be indexed. Remove --no-edi (or set edi.enabled to true), or drop --edi-only.'
    );
  }
  if (config.ediOnly && peers.length > 0) {
    return (
      `ediOnly takes collections from the execution-data stream alone, but peers names ${peers.length} other indexers to take ` +
      'them from. Drop --edi-only (the peers spare the access nodes already), or leave --peer out.'
    );
  }
  if (config.peerTokenFile !== undefined && peers.length === 0) {
    return (
      'peerTokenFile has a token for other indexers, but peers names none to send it to. Add --peer HOST:PORT, or leave ' +
      '--peer-token-file out.'
    );
  }
  if (backfill.plan !== undefined && !roles.includes('backfill')) {
    return (
      `backfill.plan (${backfill.plan}) is for a process that fills in history, but roles (${roles.join(', ')}) leave that ` +
      'out. Add the role backfill, or drop --backfill and use the command "backfill plan".'
    );
  }
  if (config.fromSnapshot !== undefined && store !== undefined) {
    return (
      'fromSnapshot begins a store in the data directory, but the index is in a database (store). Restore the snapshot to a ' +
      'directory and "migrate" that, or drop --from-snapshot.'
    );
  }
  if (api.store !== undefined && store === undefined) {
    return (
      'api.store names a replica of the database that holds the index, but no such database is given. Add ' +
      '--store postgres://host/database, or leave --api-store out.'
    );
  }
  const { certificateFile, clientCaFile, keyFile } = api.tls;
  if (certificateFile === undefined && (keyFile ?? clientCaFile) !== undefined) {
    const [key, flag] =
      keyFile === undefined
        ? ['clientCaFile', '--api-tls-client-ca-file']
        : ['keyFile', '--api-tls-key-file'];
    return (
      `api.tls.${key} is given but api.tls.certificateFile is not, so the ports would speak plain text. Add ` +
      `--api-tls-certificate-file FILE, or leave ${flag} out.`
    );
  }
  if (requester.backoffMinMs > requester.backoffMaxMs) {
    return (
      `requester.backoffMinMs (${requester.backoffMinMs}) is above requester.backoffMaxMs (${requester.backoffMaxMs}). Lower ` +
      'the first or raise the second.'
    );
  }
  if (typeof startHeight === 'number' && stopHeight !== undefined && stopHeight < startHeight) {
    return `stopHeight (${stopHeight}) is below startHeight (${startHeight}). Raise the first or lower the second.`;
  }
  if (givenRoles !== null && store === undefined) {
    return (
      `roles (${givenRoles.join(', ')}) divide the work among processes that share a database, but no store is given, so ` +
      'this process has to do all of it. Add --store postgres://host/database, or leave --roles out.'
    );
  }
  return undefined;
}

function effectiveValues(config: DaemonConfig): Readonly<Record<string, unknown>> {
  const flat: Record<string, unknown> = {};
  for (const key of Object.keys(daemonSettings)) {
    const value = key
      .split('.')
      .reduce<unknown>((node, name) => (node as Readonly<Record<string, unknown>>)[name], config);
    flat[key] = value ?? null;
  }
  return Object.freeze(flat);
}
