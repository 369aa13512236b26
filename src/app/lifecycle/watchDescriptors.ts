import { readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { MAX_FORWARDED_STREAMS } from '../../api/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { Logger } from '../../observability/index.js';
import { Listeners, OperatorError, outOfDescriptors, sleep, unlessThrown } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';

const LOOK_EVERY_MS = 1_000;
/** With fewer left, the next open may fail: the shares leave more. */
const LOW = 4;

/** Standard streams, event loops, listening sockets, the reader thread; and short-lived: files, names, a thread that is replaced. */
const OWN = 42;
/** LevelDB's log, manifest and lock; one more log, a table that is written, and tables that are read at this moment. */
const LEVEL = 12;
/** Connections to a database, for reads and for writes, and one that is being replaced. */
const PER_DATABASE = 17;
/** Connections of a node: for calls, for forwarded ones, and two that are being replaced. Each forwarded stream has its own. */
const PER_NODE = 4;
/** The streams of the live range: heads, blocks, execution data, and those that replace them. */
const LIVE_STREAMS = 8;
/** A range of history: a historic node, its blocks, its execution data. */
const PER_RANGE = 3;
/** For anything not counted above. */
const SPARE = 8;
/** Commands of the owner of the data directory. */
export const MAX_CONTROL_CONNECTIONS = 8;

/** The fewest connections that a port gets. */
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
/** With fewer descriptors, none are set aside for tables. */
const TABLES_FROM = 1_024;

/** The entry of `/proc/self/limits`: the soft limit. */
const OPEN_FILES = /^Max open files\s+(\d+|unlimited)/m;
/** The descriptors of this process that are in use. */
const OPEN_NOW = process.platform === 'linux' ? '/proc/self/fd' : '/dev/fd';

export type Descriptors = ReturnType<typeof watchDescriptors>;

/**
 * The file descriptors of this process. The daemon's own need is set aside before its ports get the rest, so that no number of
 * callers can take them from the store. Limit and use are read again every second: the limit may be lowered, and the system may
 * run out of files. Expected errors: OperatorError (`configuration`) if the limit does not suffice.
 */
export function watchDescriptors(
  config: DaemonConfig,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
) {
  const changed = new Listeners();
  let limit = descriptorLimit();
  let shares = sharesOf(config, limit);
  let trouble: string | undefined;
  /** Why the store waits for a descriptor. */
  let storeWaits: string | undefined;

  const howToRaise = (): string => {
    const plenty = plentyFor(config);
    return `ulimit -n ${plenty}, or LimitNOFILE=${plenty} of the systemd unit`;
  };
  /** One line if the ports get less than was asked for. */
  const logShortage = (): void => {
    if (shares.isEnough) return;
    const advice = `raise the limit to ${plentyFor(config)}: ${howToRaise()}`;
    logger.warn(
      { files: limit, connectionsPerPort: shares.perPort, advice },
      'each port takes fewer connections than api.maxConnections: too few files may be open',
    );
  };
  const look = async (): Promise<void> => {
    const now = descriptorLimit();
    if (now !== limit) logger.warn({ files: now, before: limit }, 'the limit of open files has changed');
    limit = now;
    const next = sharesOf(config, limit);
    if (!isDeepStrictEqual(next, shares)) {
      shares = next;
      logShortage();
      changed.tell();
    }
    const ofProcess = (count: number | string): string =>
      `${count} files that this process may have open are open`;
    try {
      // One of them is opened by this check.
      const open = (await readdir(OPEN_NOW)).length - 1;
      trouble = limit - open >= LOW ? undefined : ofProcess(`${open} of ${limit}`);
    } catch (error) {
      // Any other error: the number is unknown.
      const who = outOfDescriptors(error);
      const ofSystem = 'the system has as many files open as it allows (fs.file-max)';
      trouble = who === 'system' ? ofSystem : who && ofProcess(`all ${limit}`);
    }
  };

  const fewest =
    ownDescriptors(config) +
    LEAST_PER_PORT * (1 + readPorts(config) + (config.api.forwardRest === undefined ? 0 : 1));
  if (limit < fewest)
    throw new OperatorError(
      'configuration',
      `Only ${limit} files may be open at once, but with this configuration the daemon needs ${fewest}, and ` +
        `${plentyFor(config)} for api.maxConnections. Raise the limit (${howToRaise()}).`,
    );
  logShortage();
  return {
    /** As of the last check, at most a second ago. */
    shares: () => shares,
    /** The store cannot open a file, for a reason in words; `undefined`: it can again. */
    storeWaits: (why: string | undefined): void => void (storeWaits = why),
    /** Why something cannot be opened now, and what to do; `undefined` while it can. */
    trouble: (): string | undefined => {
      const why = trouble ?? storeWaits;
      return why && `${why}: raise the limit (${howToRaise()}), or end what uses them up`;
    },
    /** Calls back when the shares have changed. */
    onChange: (listener: () => void): void => void changed.add(listener),
    /** Expected errors: the signal's abort reason. */
    run: async (signal: AbortSignal): Promise<void> => {
      for (;;) {
        await look();
        await sleep(clock, LOOK_EVERY_MS, signal);
      }
    },
  };
}

/**
 * How many file descriptors this process may have: the soft limit, which Node.js raised to the hard one when it started.
 * `Infinity`: any number, or the system does not say.
 */
function descriptorLimit(): number {
  const limits = unlessThrown(() => readFileSync('/proc/self/limits', 'utf8')) ?? '';
  const [, limited] = OPEN_FILES.exec(limits) ?? [];
  if (limited !== undefined) return limited === 'unlimited' ? Infinity : Number(limited);
  // Not Linux, or no file can be opened any more: ask Node.js, which takes longer.
  // By default it would look up the name of each connection in the DNS, and everything would wait for that.
  const report = Object.assign(process.report, { excludeNetwork: true });
  const { userLimits } = report.getReport() as {
    readonly userLimits?: { readonly open_files?: { readonly soft?: number | string } };
  };
  const soft = userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : Infinity;
}

/** How many of `limit` file descriptors each part of the daemon may use: first the daemon itself, then its ports. */
function sharesOf(config: DaemonConfig, limit: number) {
  const { forwardRest, maxConnections } = config.api;
  const hasTables = config.store === undefined && limit >= TABLES_FROM;
  const tables = hasTables ? Math.min(MOST_TABLES, Math.floor(limit * TABLES_SHARE)) : 0;
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
    /** `perPort` is `api.maxConnections`. */
    isEnough: ports === 0 || perPort === maxConnections,
    /** The same for the port of metrics and probes. */
    metrics,
    /** The most connections to the node of `api.forwardRest`. */
    forwarded,
    /** LevelDB's own option, which counts tables that it maps too. */
    maxOpenFiles: MAPPED_TABLES + NOT_TABLES + tables,
  };
}

/** The fewest descriptors with which each port gets `api.maxConnections`. */
function plentyFor(config: DaemonConfig): number {
  let limit = TABLES_FROM;
  while (!sharesOf(config, limit).isEnough) limit *= 2;
  return limit;
}

/** What the daemon needs for itself. */
function ownDescriptors({ accessNodes, api, backfill, edi, peers, roles, store }: DaemonConfig): number {
  const databases = [store, store, ...(roles.includes('api') ? [store, api.store] : [])];
  const ofStore =
    store === undefined ? LEVEL : PER_DATABASE * databases.filter((url) => url !== undefined).length;
  const ofNodes = PER_NODE * new Set([...accessNodes, ...edi.nodes, ...peers]).size;
  const ofRanges = PER_RANGE * (roles.includes('backfill') ? backfill.parallelRanges : 0);
  const forwarded = roles.includes('api') && api.forward ? MAX_FORWARDED_STREAMS : 0;
  return OWN + MAX_CONTROL_CONNECTIONS + SPARE + ofStore + ofNodes + LIVE_STREAMS + ofRanges + forwarded;
}

/** Ports of the read API. */
function readPorts({ api, roles }: DaemonConfig): number {
  if (!roles.includes('api')) return 0;
  return api.grpcPort === 'off' ? 1 : 2;
}
