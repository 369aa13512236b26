import type { DaemonConfig } from '../../config/index.js';

/** Standard streams, event loops, listening sockets, the reader thread; and short-lived: files, names, a thread that is replaced. */
const OWN = 42;
/** LevelDB's log, manifest and lock; one more log, a table that is written, and tables that are read at this moment. */
const LEVEL = 12;
/** Connections to a database, for reads and for writes, and one that is replaced. */
const PER_DATABASE = 17;
/** Connections of a node: for calls, for forwarded ones, and two that are being replaced. */
const PER_NODE = 4;
/** The streams of the live range: heads, blocks, execution data, and those that replace them. */
const LIVE_STREAMS = 8;
/** A range of history: a historic node, its blocks, its execution data. */
const PER_RANGE = 3;
/** For whatever was not thought of. */
const SPARE = 8;
/** Commands of the owner of the data directory. */
export const MAX_CONTROL_CONNECTIONS = 8;

/** The fewest connections of a port. */
const LEAST_PER_PORT = 8;
/** Of what is left, for probes and scrapers. */
const METRICS_SHARE = 1 / 8;
const MOST_FOR_METRICS = 64;
/** Of what is left, for connections to the node of `api.forwardRest`; the most that it uses. */
const FORWARDED_SHARE = 1 / 4;
const MOST_FORWARDED = 172;
/** LevelDB maps its first 1,000 tables, and keeps the others open. */
const MAPPED_TABLES = 1_000;
/** What LevelDB subtracts for its other files. */
const NOT_TABLES = 10;
/** Tables beyond those that may be open. More do not make reads faster. */
const MOST_TABLES = 1_038;
const TABLES_SHARE = 1 / 8;
/** With fewer descriptors, all are for other things. */
const TABLES_FROM = 1_024;

type Using = Pick<DaemonConfig, 'accessNodes' | 'api' | 'backfill' | 'edi' | 'peers' | 'roles' | 'store'>;

/** The fewest file descriptors with which the daemon works. */
export function fewestDescriptors(config: Using): number {
  const forwarded = config.api.forwardRest === undefined ? 0 : LEAST_PER_PORT;
  return ownDescriptors(config) + LEAST_PER_PORT * (1 + readPorts(config)) + forwarded;
}

/** The fewest with which each port may have `api.maxConnections`. */
export function plentyOfDescriptors(config: Using): number {
  let limit = TABLES_FROM;
  while (!descriptorShares(config, limit).isEnough) limit *= 2;
  return limit;
}

/** How many of `limit` file descriptors each part of the daemon may use: first the daemon itself, then its ports. */
export function descriptorShares(config: Using, limit: number) {
  const { forwardRest, maxConnections } = config.api;
  const isLevel = config.store === undefined;
  const tables =
    isLevel && limit >= TABLES_FROM ? Math.min(MOST_TABLES, Math.floor(limit * TABLES_SHARE)) : 0;
  const left = Math.max(0, limit - ownDescriptors(config) - tables);
  const share = (part: number, most: number): number =>
    Math.min(most, Math.max(LEAST_PER_PORT, Math.floor(left * part)));
  const metrics = share(METRICS_SHARE, MOST_FOR_METRICS);
  const forwarded = forwardRest === undefined ? 0 : share(FORWARDED_SHARE, MOST_FORWARDED);
  const ports = readPorts(config);
  const each = Math.floor((left - metrics - forwarded) / Math.max(1, ports));
  const perPort = Math.min(maxConnections, Math.max(LEAST_PER_PORT, each));
  return {
    /** The most connections of callers to each port of the read API. */
    perPort,
    /** That is `api.maxConnections`. */
    isEnough: ports === 0 || perPort === maxConnections,
    /** The same for the port of metrics and probes. */
    metrics,
    /** The most connections to the node of `api.forwardRest`. */
    forwarded,
    /** LevelDB's own option, which counts tables that it maps too. */
    maxOpenFiles: MAPPED_TABLES + NOT_TABLES + tables,
  };
}

/** What the daemon needs for itself. */
function ownDescriptors({ accessNodes, api, backfill, edi, peers, roles, store }: Using): number {
  const serves = roles.includes('api');
  const databases = [store, store, ...(serves ? [store, api.store] : [])].filter((url) => url !== undefined);
  const nodes = new Set([...accessNodes, ...edi.nodes, ...peers]).size;
  const ranges = roles.includes('backfill') ? backfill.parallelRanges : 0;
  return (
    OWN +
    MAX_CONTROL_CONNECTIONS +
    SPARE +
    (store === undefined ? LEVEL : PER_DATABASE * databases.length) +
    PER_NODE * nodes +
    LIVE_STREAMS +
    PER_RANGE * ranges
  );
}

/** Ports of the read API. */
function readPorts({ api, roles }: Using): number {
  if (!roles.includes('api')) return 0;
  return api.grpcPort === 'off' ? 1 : 2;
}
