import type { ChangeFeed } from '../feed/ChangeFeed.js';
import { accessCalls } from './calls/accessCalls.js';
import type { AccessCallsDependencies, AccessCallsOptions } from './calls/accessCalls.js';
import { accountCalls } from './calls/accountCalls.js';
import { blockStreams } from './calls/blockStreams.js';
import { GrpcServer } from './GrpcServer.js';
import type { GrpcServerDependencies, GrpcServerOptions } from './GrpcServer.js';
import { HealthService } from './HealthService.js';
import { indexStreams } from './calls/indexStreams.js';
import { notServed } from './calls/notServed.js';
import { ReflectionService } from './ReflectionService.js';

const ACCESS_API = 'flow.access.AccessAPI';
/** Our own service. */
const INDEX_API = 'flow_collection_indexer.v1.IndexAPI';

export interface GrpcApiServerOptions extends GrpcServerOptions, AccessCallsOptions {
  /** The first is suggested to callers who need what only an access node has. */
  readonly accessNodes: readonly string[];
}

export interface GrpcApiServerDependencies extends GrpcServerDependencies, AccessCallsDependencies {
  readonly health: { readiness(): { readonly ready: boolean } };
  /** Its owner ends its streams before the server is closed. */
  readonly feed: ChangeFeed;
}

/**
 * The read side over gRPC: what an index can serve of Flow's `AccessAPI`, our own `IndexAPI`, and the standard services
 * for health and reflection. It serves from the first second on, even while nothing is indexed.
 */
export class GrpcApiServer extends GrpcServer {
  readonly #health: HealthService;

  constructor(options: GrpcApiServerOptions, dependencies: GrpcApiServerDependencies) {
    const { feed } = dependencies;
    const health = new HealthService({ services: [ACCESS_API, INDEX_API] }, dependencies);
    const accounts = byPath(INDEX_API, accountCalls(dependencies));
    const unary = {
      ...byPath(ACCESS_API, accessCalls(options, dependencies)),
      ...accounts,
      ...health.unary(),
    };
    const open = new Set([...Object.keys(health.unary()), ...Object.keys(health.streams())]);
    const bulk = new Set([...Object.keys(accounts), `/${ACCESS_API}/GetTransactionsByBlockID`]);
    const streams = {
      ...byPath(ACCESS_API, blockStreams({ feed })),
      ...byPath(INDEX_API, indexStreams({ feed })),
      ...health.streams(),
    };
    const conversations = new ReflectionService().conversations();
    const { accessNodes } = options;
    const refused = notServed({ accessApi: ACCESS_API, accessNodes }, { served: { ...unary, ...streams } });
    super(options, { ...dependencies, calls: { unary, streams, conversations, refused, open, bulk } });
    this.#health = health;
  }

  /** Call it when the daemon's readiness may have changed. */
  notify(): void {
    this.#health.notify();
  }

  override close(): Promise<void> {
    this.#health.close();
    return super.close();
  }
}

function byPath<T>(service: string, methods: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  return Object.fromEntries(
    Object.entries(methods).map(([method, call]) => [`/${service}/${method}`, call] as const),
  );
}
