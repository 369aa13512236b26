import { Forwarder } from '../../access/index.js';
import type { NodeMetadata } from '../../access/index.js';
import { apiServer, ChangeFeed, GrpcApiServer } from '../../api/index.js';
import { createReaderMetrics, errorFields } from '../../observability/index.js';
import type { Logger, LogLevel } from '../../observability/index.js';
import { EndGate, OperatorError } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { loadPostgres, openLevelReplica } from '../../storage/index.js';
import { restNode } from '../guard/nodeMetadata.js';
import { IndexerLink } from './IndexerLink.js';
import type { FromReader, OpenConnections, Port, ReaderData, ReaderSettings, ToReader } from './messages.js';

/** Log records at most between two answers of the other thread; further ones are dropped. */
export const MAX_RECORDS_UNDER_WAY = 1_000;

/**
 * Serves readers over a replica of the store, from the first state that the indexing thread sends until it says to
 * stop. Resolves when everything is closed.
 */
export function serveReaders(
  options: ReaderData,
  dependencies: {
    /** To the indexing thread. */
    readonly port: Port;
    readonly clock: Clock;
    /** Called for every unexpected error: it ends the thread. */
    readonly fail: (error: unknown) => void;
    /** Receives the logger that writes to the daemon's log. */
    readonly onLogger?: (logger: Logger) => void;
  },
): Promise<void> {
  const { clock, fail, port } = dependencies;
  const gate = EndGate.loaded(options.gate);
  const post = (message: FromReader): void => port.postMessage(message);
  const logger = new LinkedLogger({ level: options.settings.logLevel }, { post });
  dependencies.onLogger?.(logger);
  const link = new IndexerLink({ clock, post });
  const metrics = createReaderMetrics();
  let opening: Promise<Servers | undefined> | undefined;
  let servers: Servers | undefined;
  let { settings } = options;

  const open = async (): Promise<Servers | undefined> => {
    try {
      servers = await openServers(options, { clock, fail, gate, link, logger, metrics, post });
      if (settings !== options.settings) servers.change(settings);
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
          servers?.change(settings);
          break;
        case 'scrape':
          void metrics.snapshot().then((snapshot) => post({ kind: 'metrics', metrics: snapshot }), fail);
          break;
        case 'stop':
          close().catch(fail);
          break;
        default:
      }
    });
  });
}

/** All servers for readers, while open. */
type Servers = Awaited<ReturnType<typeof openServers>>;

/** Expected errors: OperatorError (an unusable address; those of `openLevelReplica`). */
async function openServers(
  options: ReaderData,
  parts: Pick<Parameters<typeof serveReaders>[1], 'clock' | 'fail'> & {
    readonly gate: EndGate;
    readonly link: IndexerLink;
    readonly post: (message: FromReader) => void;
    readonly logger: LinkedLogger;
    readonly metrics: ReturnType<typeof createReaderMetrics>;
  },
) {
  const { clock, fail, gate, link, logger, metrics, post } = parts;
  const {
    accessNodes,
    api: config,
    chainId,
    maxMessageBytes,
    settings,
    storePath,
    storeUrl,
    userAgent,
    version,
  } = options;
  const replica =
    storeUrl === undefined
      ? await openLevelReplica(storePath, gate)
      : (await loadPostgres()).openPostgresReplica(storeUrl);
  replica.show(link.moment.shown);
  replica.onDamage((damage) => post({ kind: 'damage', damage }));
  const common = { clock, logger, fail, metrics };
  let { nodeMetadata } = options.settings;
  const metadataFor = (node: string): NodeMetadata => nodeMetadata?.get(node) ?? {};
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
  const { grpcPort, host } = config;
  const { maxConnections, ratePerSecondPerAddress, secrets } = settings;
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
    /** Call it when there is a new state. */
    notify: () => {
      replica.show(link.moment.shown);
      feed.notify();
      grpc?.notify();
    },
    connections: (): OpenConnections => ({ api: api.connections, grpc: grpc?.connections ?? 0 }),
    change: (next: ReaderSettings) => {
      api.setLimits(next);
      grpc?.setLimits(next);
      if (next.secrets !== undefined) {
        api.secure(next.secrets);
        grpc?.secure(next.secrets);
      }
      ({ nodeMetadata } = next);
    },
    close,
  };
}

/** From verbose to quiet. */
const levels: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];

/** A logger whose records another thread writes. */
class LinkedLogger implements Logger {
  #least: number;
  readonly #post: (message: FromReader) => void;
  #underWay = 0;
  #dropped = 0;
  readonly debug = this.#as('debug');
  readonly info = this.#as('info');
  readonly warn = this.#as('warn');
  readonly error = this.#as('error');

  constructor(
    options: { readonly level: LogLevel },
    dependencies: { readonly post: (message: FromReader) => void },
  ) {
    this.#least = levels.indexOf(options.level);
    this.#post = dependencies.post;
  }

  setLevel(level: LogLevel): void {
    this.#least = levels.indexOf(level);
  }

  /** The other thread answered: it has taken everything sent before. */
  taken(): void {
    this.#underWay = 0;
    if (this.#dropped === 0) return;
    const records = this.#dropped;
    this.#dropped = 0;
    this.#post({ kind: 'logLost', records });
  }

  #as(level: Exclude<LogLevel, 'silent'>) {
    return (fields: object, message: string): void => {
      if (levels.indexOf(level) < this.#least) return;
      if (this.#underWay >= MAX_RECORDS_UNDER_WAY) {
        this.#dropped += 1;
        return;
      }
      this.#underWay += 1;
      this.#post({ kind: 'log', level, fields: errorFields(fields), message });
    };
  }
}
