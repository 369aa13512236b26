import { Forwarder } from '../../access/index.js';
import type { NodeMetadata } from '../../access/index.js';
import { apiServer, ChangeFeed, GrpcApiServer } from '../../api/index.js';
import { createReaderMetrics, errorFields } from '../../observability/index.js';
import type { Logger, LogLevel } from '../../observability/index.js';
import { EndGate, OperatorError } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { loadPostgres, openLevelReplica } from '../../storage/index.js';
import { restNode } from '../guard/nodeMetadata.js';
import { linkIndexer } from './linkIndexer.js';
import type { FromReader, OpenConnections, Port, ReaderData, ToReader } from './messages.js';

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
  const { clock, fail, onLogger, port } = thread;
  const { accessNodes, api: config, chainId, maxMessageBytes, userAgent, version } = options;
  const gate = EndGate.loaded(options.gate);
  const post = (message: FromReader): void => port.postMessage(message);
  const logger = linkedLogger(options.settings.logLevel, post);
  onLogger?.(logger);
  const link = linkIndexer({ clock, post });
  const metrics = createReaderMetrics();
  const common = { clock, logger, fail, metrics };
  let { settings } = options;

  /** Expected errors: OperatorError (an unusable address; those of `openLevelReplica`). */
  const openServers = async () => {
    const replica =
      options.storeUrl === undefined
        ? await openLevelReplica(options.storePath, gate)
        : (await loadPostgres()).openPostgresReplica(options.storeUrl);
    replica.show(link.moment().shown);
    replica.onDamage((damage) => post({ kind: 'damage', damage }));
    const metadataFor = (node: string): NodeMetadata => settings.nodeMetadata?.get(node) ?? {};
    const restName = config.forwardRest === undefined ? '' : restNode(config.forwardRest).name;
    const feed = new ChangeFeed({ reader: replica, status: link, clock, metrics });
    const api = apiServer(
      { ...config, ...settings, chainId, version },
      {
        ...common,
        feed,
        reader: replica,
        status: link,
        work: link,
        forwardingOff: () => link.forwardingOff(),
        restMetadata: () => metadataFor(restName),
      },
    );
    const forwarder = config.forward
      ? new Forwarder(
          { maxMessageBytes, userAgent },
          { clock, metrics, metadataFor, nodes: () => link.forwardingNodes(), admission: link },
        )
      : undefined;
    const grpc =
      config.grpcPort === 'off'
        ? undefined
        : new GrpcApiServer(
            { ...settings, host: config.host, port: config.grpcPort, accessNodes, chainId, version },
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

  let opening: Promise<void> | undefined;
  let servers: Awaited<ReturnType<typeof openServers>> | undefined;
  /** Resolves when the servers listen, or cannot: then `isOver` is called. */
  const open = async (isOver: () => void): Promise<void> => {
    try {
      const given = settings;
      servers = await openServers();
      const { api, grpc } = servers;
      if (settings !== given) change();
      const addresses = { api: api.address(), ...(grpc === undefined ? {} : { grpc: grpc.address() }) };
      post({ kind: 'listening', addresses });
    } catch (error) {
      if (error instanceof OperatorError) post({ kind: 'refused', exit: error.exit, message: error.message });
      else fail(error);
      isOver();
    }
  };
  const change = (): void => {
    for (const server of [servers?.api, servers?.grpc]) {
      server?.setLimits(settings);
      if (settings.secrets !== undefined) server?.secure(settings.secrets);
    }
  };
  const connections = (): OpenConnections | undefined =>
    servers && { api: servers.api.connections, grpc: servers.grpc?.connections ?? 0 };
  return new Promise((resolve) => {
    port.on('message', (received) => {
      const message = received as ToReader;
      link.receive(message);
      switch (message.kind) {
        case 'state':
          post({ kind: 'ack', connections: connections() });
          logger.taken();
          servers?.replica.show(message.moment.shown);
          servers?.feed.notify();
          servers?.grpc?.notify();
          opening ??= open(resolve);
          break;
        case 'settings':
          ({ settings } = message);
          logger.setLevel(settings.logLevel);
          change();
          break;
        case 'scrape':
          void metrics.snapshot().then((snapshot) => post({ kind: 'metrics', metrics: snapshot }), fail);
          break;
        case 'stop':
          void Promise.resolve(opening)
            .then(() => servers?.close())
            .then(resolve, fail);
          break;
        default:
      }
    });
  });
}

/** From verbose to quiet. */
const levels: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];

/** A logger whose records another thread writes. */
function linkedLogger(level: LogLevel, post: (message: FromReader) => void) {
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
      post({ kind: 'log', level: itsLevel, fields: errorFields(fields), message });
    };
  return {
    debug: as('debug'),
    info: as('info'),
    warn: as('warn'),
    error: as('error'),
    setLevel: (next: LogLevel): void => void (least = levels.indexOf(next)),
    /** The other thread answered: it has taken everything sent before. */
    taken: (): void => {
      if (dropped > 0) post({ kind: 'logLost', records: dropped });
      underWay = dropped = 0;
    },
  };
}
