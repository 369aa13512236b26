import { Forwarder, type NodeMetadata } from '../../access/index.js';
import { apiServer, changeFeed, GrpcApiServer } from '../../api/index.js';
import { createReaderMetrics, errorFields, type Logger, type LogLevel } from '../../observability/index.js';
import { EndGate, OperatorError, programVersion, userAgent, type Clock } from '../../runtime/index.js';
import { loadPostgres, openLevelReplica } from '../../storage/index.js';
import { restNode } from '../guard/nodeMetadata.js';
import { storePathOf } from '../lifecycle/daemonRecord.js';
import { callsOver, type Calls, type Port } from './calls.js';
import { linkIndexer } from './linkIndexer.js';
import type { IndexerCalls, ReaderCalls, ReaderData, ReaderOptions } from './messages.js';

/** The most log records between two answers of the other thread; further ones are dropped. */
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
  const { access, accessNodes, api, chainId, dataDir } = config;
  let now: ReaderOptions = options;
  const gate = EndGate.loaded(options.gate);
  const link = linkIndexer({ clock, indexer: () => indexer });
  const metrics = createReaderMetrics();
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
      now = next;
      logger.setLevel(next.config.log.level);
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
  const logger = linkedLogger(config.log.level, indexer);
  thread.onLogger?.(logger);
  const common = { clock, logger, fail, metrics };

  /** Expected errors: OperatorError (an unusable address; those of `openLevelReplica`). */
  const openServers = async () => {
    const storeUrl = api.store ?? config.store;
    const replica =
      storeUrl === undefined
        ? await openLevelReplica(storePathOf(dataDir), gate)
        : (await loadPostgres()).openPostgresReplica(storeUrl);
    replica.show(link.state().shown);
    replica.onDamage((damage) => indexer.tell('damaged', damage));
    const metadataFor = (node: string): NodeMetadata => now.nodeMetadata?.get(node) ?? {};
    const restName = api.forwardRest === undefined ? '' : restNode(api.forwardRest).name;
    const feed = changeFeed({ reader: replica, status: link, clock, metrics });
    const ofBoth = { ...api, secrets: now.secrets, chainId, version: programVersion };
    const http = apiServer(
      { ...ofBoth, forwardSockets },
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
    const forwarder = api.forward
      ? new Forwarder(
          { maxMessageBytes: access.maxMessageBytes, userAgent },
          { clock, metrics, metadataFor, nodes: () => link.state().nodes, admission: link },
        )
      : undefined;
    const grpc =
      api.grpcPort === 'off'
        ? undefined
        : new GrpcApiServer(
            { ...ofBoth, port: api.grpcPort, accessNodes },
            { ...common, feed, forwarder, store: replica, status: link, health: link },
          );
    const close = async (): Promise<void> => {
      const feedClosed = feed.close();
      // In parallel: each waits for its callers, up to a limit. The feed must end too, or streams would never end.
      await Promise.all([feedClosed, http.close(), grpc?.close()]);
      forwarder?.close();
      await replica.close();
    };
    try {
      await http.start();
      await grpc?.start();
    } catch (error) {
      await close();
      throw error;
    }
    return { replica, feed, http, grpc, close };
  };

  /** Resolves when the servers listen, or cannot, which ends the thread. */
  const open = async (): Promise<void> => {
    try {
      servers = await openServers();
      const { grpc, http } = servers;
      // The options may have changed while the servers started.
      change();
      indexer.tell('listens', { api: http.address(), grpc: grpc?.address() });
    } catch (error) {
      if (error instanceof OperatorError) indexer.tell('refused', error.exit, error.message);
      else fail(error);
      end();
    }
  };
  const change = (): void => {
    for (const server of [servers?.http, servers?.grpc]) {
      server?.setLimits(now.config.api);
      if (now.secrets !== undefined) server?.secure(now.secrets);
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
