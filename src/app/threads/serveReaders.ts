import { Forwarder, type NodeMetadata } from '../../access/index.js';
import { apiServer, ChangeFeed, GrpcApiServer } from '../../api/index.js';
import { createReaderMetrics, errorFields, type Logger, type LogLevel } from '../../observability/index.js';
import { EndGate, OperatorError, programVersion, userAgent, type Clock } from '../../runtime/index.js';
import { loadPostgres, openLevelReplica } from '../../storage/index.js';
import { restNode } from '../guard/nodeMetadata.js';
import { storePathOf } from '../lifecycle/daemonRecord.js';
import { callsOver, type Calls, type Port } from './calls.js';
import { linkIndexer } from './linkIndexer.js';
import type { IndexerCalls, ReaderCalls, ReaderData } from './messages.js';

/** Log records at most between two answers of the other thread; further ones are dropped. */
export const MAX_RECORDS_UNDER_WAY = 1_000;

/**
 * Serves readers over a replica of the store, from the first state that the indexing thread sends until it says to
 * stop. Resolves when everything is closed.
 */
export function serveReaders(
  options: ReaderData,
  thread: {
    /** To the indexing thread. */
    readonly port: Port;
    readonly clock: Clock;
    /** Called for every unexpected error: it ends the thread. */
    readonly fail: (error: unknown) => void;
    /** Receives the logger that writes to the daemon's log. */
    readonly onLogger?: (logger: Logger) => void;
  },
): Promise<void> {
  const { clock, fail } = thread;
  const { config, forwardSockets } = options;
  const { access, accessNodes, chainId, dataDir } = config;
  const gate = EndGate.loaded(options.gate);
  const link = linkIndexer({ clock, indexer: () => indexer });
  const metrics = createReaderMetrics();
  let { settings } = options;
  let opening: Promise<void> | undefined;
  let servers: Awaited<ReturnType<typeof openServers>> | undefined;
  let end = (): void => undefined;
  const ended = new Promise<void>((resolve) => (end = resolve));

  const ours: ReaderCalls = {
    show: (state) => {
      // It has taken every record that was sent before.
      logger.taken();
      link.show(state);
      servers?.replica.show(state.shown);
      servers?.feed.notify();
      servers?.grpc?.health.notify();
      opening ??= open();
      return servers?.replica.trouble();
    },
    makeWay: link.makeWay,
    change: (next) => {
      logger.setLevel((settings = next).logLevel);
      change();
    },
    metrics: () => metrics.snapshot(),
    stop: () => {
      void Promise.resolve(opening)
        .then(() => servers?.close())
        .then(end, fail);
    },
  };
  const indexer = callsOver<IndexerCalls>(thread.port, ours);
  const logger = linkedLogger(settings.logLevel, indexer);
  thread.onLogger?.(logger);
  const common = { clock, logger, fail, metrics };

  /** Expected errors: OperatorError (an unusable address; those of `openLevelReplica`). */
  const openServers = async () => {
    const storeUrl = config.api.store ?? config.store;
    const replica =
      storeUrl === undefined
        ? await openLevelReplica(storePathOf(dataDir), gate)
        : (await loadPostgres()).openPostgresReplica(storeUrl);
    replica.show(link.state().shown);
    replica.onDamage((damage) => indexer.tell('damaged', damage));
    const metadataFor = (node: string): NodeMetadata => settings.nodeMetadata?.get(node) ?? {};
    const { forward, forwardRest, grpcPort, host } = config.api;
    const restName = forwardRest === undefined ? '' : restNode(forwardRest).name;
    const feed = new ChangeFeed({ reader: replica, status: link, clock, metrics });
    const api = apiServer(
      { ...config.api, ...settings, forwardSockets, chainId, version: programVersion },
      {
        ...common,
        feed,
        reader: replica,
        status: link,
        work: link,
        forwardingOff: () => link.state().forwardingOff,
        restMetadata: () => metadataFor(restName),
      },
    );
    const forwarder = forward
      ? new Forwarder(
          { maxMessageBytes: access.maxMessageBytes, userAgent },
          { clock, metrics, metadataFor, nodes: () => link.state().nodes, admission: link },
        )
      : undefined;
    const grpc =
      grpcPort === 'off'
        ? undefined
        : new GrpcApiServer(
            { ...settings, host, port: grpcPort, accessNodes, chainId, version: programVersion },
            { ...common, feed, forwarder, store: replica, status: link, health: link },
          );
    const close = async (): Promise<void> => {
      const feedClosed = feed.close();
      // In parallel: each waits for its callers, up to a limit. The feed must end too, or streams would never end.
      await Promise.all([feedClosed, api.close(), grpc?.close()]);
      forwarder?.close();
      await replica.close();
    };
    try {
      await api.start();
      await grpc?.start();
    } catch (error) {
      await close();
      throw error;
    }
    return { replica, feed, api, grpc, close };
  };

  /** Resolves when the servers listen, or cannot: then all is over. */
  const open = async (): Promise<void> => {
    try {
      servers = await openServers();
      const { api, grpc } = servers;
      // To what they are by now.
      change();
      indexer.tell('listens', { api: api.address(), grpc: grpc?.address() });
    } catch (error) {
      if (error instanceof OperatorError) indexer.tell('refused', error.exit, error.message);
      else fail(error);
      end();
    }
  };
  const change = (): void => {
    for (const server of [servers?.api, servers?.grpc]) {
      server?.setLimits(settings);
      if (settings.secrets !== undefined) server?.secure(settings.secrets);
    }
  };
  return ended;
}

/** From verbose to quiet. */
const levels: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];

/** A logger whose records another thread writes. */
function linkedLogger(level: LogLevel, indexer: Calls<IndexerCalls>) {
  let least = levels.indexOf(level);
  let underWay = 0;
  let dropped = 0;
  const as =
    (itsLevel: Exclude<LogLevel, 'silent'>) =>
    (fields: object, message: string): void => {
      if (levels.indexOf(itsLevel) < least) return;
      if (underWay >= MAX_RECORDS_UNDER_WAY) {
        dropped += 1;
        return;
      }
      underWay += 1;
      indexer.tell('log', itsLevel, errorFields(fields), message);
    };
  return {
    debug: as('debug'),
    info: as('info'),
    warn: as('warn'),
    error: as('error'),
    setLevel: (next: LogLevel): void => void (least = levels.indexOf(next)),
    /** The other thread answered: it has taken everything sent before. */
    taken: (): void => {
      if (dropped > 0) indexer.tell('logLost', dropped);
      underWay = dropped = 0;
    },
  };
}
