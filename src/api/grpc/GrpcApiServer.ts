import { loadDescriptors } from '../../flow/index.js';
import type { ChangeFeed } from '../feed/ChangeFeed.js';
import type { ReadableIndex } from '../view/IndexView.js';
import { AccessCalls } from './AccessCalls.js';
import type { AccessCallsDependencies, AccessCallsOptions } from './AccessCalls.js';
import { AccountCalls } from './AccountCalls.js';
import { BlockStreams } from './BlockStreams.js';
import { GrpcServer } from './GrpcServer.js';
import type { GrpcServerDependencies, GrpcServerOptions } from './GrpcServer.js';
import { HealthService } from './HealthService.js';
import { IndexStreams } from './IndexStreams.js';
import { notServed } from './notServed.js';
import { ReflectionService } from './ReflectionService.js';

const ACCESS_API = 'flow.access.AccessAPI';
/** Our own. */
const INDEX_API = 'flow_collection_indexer.v1.IndexAPI';

export interface GrpcApiServerOptions extends GrpcServerOptions, AccessCallsOptions {
  /** The first is named to callers who ask for what only an access node has. */
  readonly accessNodes: readonly string[];
}

export interface GrpcApiServerDependencies extends GrpcServerDependencies, AccessCallsDependencies {
  readonly store: ReadableIndex;
  readonly health: { readiness(): { readonly ready: boolean } };
  /** Its streams are its owner's to end, before the server is closed. */
  readonly feed: ChangeFeed;
}

/**
 * The read side over gRPC: what an index can answer of Flow's `AccessAPI`, what Flow's lacks, and the standard services for
 * health and reflection. It serves from the first second on, also while nothing is indexed, and never touches the writers.
 */
export class GrpcApiServer {
  readonly #server: GrpcServer;
  readonly #health: HealthService;

  constructor(options: GrpcApiServerOptions, dependencies: GrpcApiServerDependencies) {
    const { feed } = dependencies;
    this.#health = new HealthService({ services: [ACCESS_API, INDEX_API] }, dependencies);
    this.#server = new GrpcServer(options, {
      ...dependencies,
      calls: {
        unary: {
          ...byPath(ACCESS_API, new AccessCalls(options, dependencies).calls()),
          ...byPath(INDEX_API, new AccountCalls(dependencies).calls()),
          ...this.#health.unary(),
        },
        streams: {
          ...byPath(ACCESS_API, new BlockStreams({ feed }).streams()),
          ...byPath(INDEX_API, new IndexStreams({ feed }).streams()),
          ...this.#health.streams(),
        },
        conversations: ReflectionService.conversations(loadDescriptors),
        refused: notServed(ACCESS_API, options),
      },
    });
  }

  /** Expected errors: OperatorError (`configuration`) when the address cannot be used. */
  start(): Promise<void> {
    return this.#server.start();
  }

  address(): { readonly host: string; readonly port: number } {
    return this.#server.address();
  }

  /** The daemon may have become ready, or not to be. */
  notify(): void {
    this.#health.notify();
  }

  close(): Promise<void> {
    this.#health.close();
    return this.#server.close();
  }
}

function byPath<T>(service: string, methods: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  return Object.fromEntries(
    Object.entries(methods).map(([method, call]) => [`/${service}/${method}`, call] as const),
  );
}
