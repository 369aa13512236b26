import { Forwarder } from '../../access/index.js';
import type { NodeMetadata } from '../../access/index.js';
import { ApiServer, ChangeFeed, GrpcApiServer } from '../../api/index.js';
import { createReaderMetrics } from '../../observability/index.js';
import type { Logger } from '../../observability/index.js';
import { EndGate, OperatorError } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { LevelReplica, loadPostgres } from '../../storage/index.js';
import { restNode } from '../guard/nodeMetadata.js';
import { IndexerLink } from './IndexerLink.js';
import { LinkedLogger } from './LinkedLogger.js';
import type {
  FromReader,
  OpenConnections,
  Port,
  ReaderAddresses,
  ReaderOptions,
  ReaderSecrets,
  ReaderSettings,
  ToReader,
} from './messages.js';

export interface ServeReadersDependencies {
  /** To the indexing thread. */
  readonly port: Port;
  readonly clock: Clock;
  /** Called for every unexpected error: it ends the thread. */
  readonly fail: (error: unknown) => void;
  /** Receives the logger that writes to the daemon's log. */
  readonly onLogger?: (logger: Logger) => void;
}

/** All servers for readers, while open. */
interface Servers {
  readonly addresses: ReaderAddresses;
  /** Call it when there is a new state. */
  notify(): void;
  connections(): OpenConnections;
  setLimits(settings: ReaderSettings): void;
  secure(secrets: ReaderSecrets): void;
  close(): Promise<void>;
}

/**
 * Serves readers over a replica of the store, from the first state that the indexing thread sends until it says to
 * stop. Resolves when everything is closed.
 */
export function serveReaders(options: ReaderOptions, dependencies: ServeReadersDependencies): Promise<void> {
  const { clock, fail, port } = dependencies;
  const gate = EndGate.loaded(options.gate);
  const post = (message: FromReader): void => port.postMessage(message);
  const logger = new LinkedLogger({ level: options.logLevel }, { post });
  dependencies.onLogger?.(logger);
  const link = new IndexerLink({ clock, post });
  const metrics = createReaderMetrics();
  let opening: Promise<Servers | undefined> | undefined;
  let servers: Servers | undefined;
  let settings: ReaderSettings | undefined;
  let secrets: ReaderSecrets | undefined;

  const open = async (): Promise<Servers | undefined> => {
    try {
      servers = await openServers(options, { clock, fail, gate, link, logger, metrics, post });
      if (settings !== undefined) servers.setLimits(settings);
      if (secrets !== undefined) servers.secure(secrets);
      post({ kind: 'listening', addresses: servers.addresses });
      return servers;
    } catch (error) {
      if (error instanceof OperatorError) post({ kind: 'refused', exit: error.exit, message: error.message });
      else fail(error);
      return undefined;
    }
  };
  return new Promise((resolve) => {
    const close = async (): Promise<void> => {
      await (await opening)?.close();
      resolve();
    };
    port.on('message', (received) => {
      const message = received as ToReader;
      link.receive(message);
      switch (message.kind) {
        case 'state':
          post({ kind: 'ack', connections: servers?.connections() });
          logger.taken();
          servers?.notify();
          opening ??= open().then((opened) => {
            if (opened === undefined) resolve();
            return opened;
          });
          break;
        case 'settings':
          settings = message.settings;
          logger.setLevel(settings.logLevel);
          servers?.setLimits(settings);
          break;
        case 'secrets':
          secrets = message;
          servers?.secure(secrets);
          break;
        case 'scrape':
          void metrics.snapshot().then((snapshot) => post({ kind: 'metrics', metrics: snapshot }), fail);
          break;
        case 'stop':
          close().catch(fail);
          break;
        case 'answer':
        case 'admission':
        case 'makeWay':
      }
    });
  });
}

/** Expected errors: OperatorError (an unusable address; those of `LevelReplica.open`). */
async function openServers(
  options: ReaderOptions,
  parts: Pick<ServeReadersDependencies, 'clock' | 'fail'> & {
    readonly gate: EndGate;
    readonly link: IndexerLink;
    readonly post: (message: FromReader) => void;
    readonly logger: LinkedLogger;
    readonly metrics: ReturnType<typeof createReaderMetrics>;
  },
): Promise<Servers> {
  const { clock, fail, gate, link, logger, metrics, post } = parts;
  const {
    accessNodes,
    api: config,
    chainId,
    maxMessageBytes,
    secrets,
    storePath,
    storeUrl,
    userAgent,
    version,
  } = options;
  const replica =
    storeUrl === undefined
      ? await LevelReplica.open({ path: storePath, gate })
      : (await loadPostgres()).PostgresReplica.open({ url: storeUrl });
  replica.show(link.moment.shown);
  replica.onDamage((damage) => post({ kind: 'damage', damage }));
  const common = { clock, logger, fail, metrics };
  let { nodeMetadata } = options;
  const metadataFor = (node: string): NodeMetadata => nodeMetadata?.get(node) ?? {};
  const restName = config.forwardRest === undefined ? '' : restNode(config.forwardRest).name;
  const feed = new ChangeFeed({ reader: replica, status: link, clock, metrics });
  const api = new ApiServer(
    { ...config, secrets, chainId, version },
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
        { clock, metrics, metadataFor, nodes: () => link.forwardingNodes(), desk: link },
      )
    : undefined;
  const { grpcPort, host, maxConnections, ratePerSecondPerAddress } = config;
  const grpc =
    grpcPort === 'off'
      ? undefined
      : new GrpcApiServer(
          {
            host,
            port: grpcPort,
            maxConnections,
            ratePerSecondPerAddress,
            secrets,
            accessNodes,
            chainId,
            version,
          },
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
  return {
    addresses: { api: api.address(), ...(grpc === undefined ? {} : { grpc: grpc.address() }) },
    notify: () => {
      replica.show(link.moment.shown);
      feed.notify();
      grpc?.notify();
    },
    connections: () => ({ api: api.connections, grpc: grpc?.connections ?? 0 }),
    setLimits: (settings) => {
      api.setLimits(settings);
      grpc?.setLimits(settings);
    },
    secure: (next) => {
      api.secure(next.secrets);
      grpc?.secure(next.secrets);
      ({ nodeMetadata } = next);
    },
    close,
  };
}
