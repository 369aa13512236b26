import { loadDescriptors } from '../../flow/index.js';
import { AccessCalls } from './AccessCalls.js';
import type { AccessCallsDependencies, AccessCallsOptions } from './AccessCalls.js';
import { GrpcServer } from './GrpcServer.js';
import type { GrpcServerDependencies, GrpcServerOptions } from './GrpcServer.js';
import { HealthService } from './HealthService.js';
import { notServed } from './notServed.js';
import { ReflectionService } from './ReflectionService.js';

const ACCESS_API = 'flow.access.AccessAPI';

export interface GrpcApiServerOptions extends GrpcServerOptions, AccessCallsOptions {
  /** The first is named to callers who ask for what only an access node has. */
  readonly accessNodes: readonly string[];
}

export interface GrpcApiServerDependencies extends GrpcServerDependencies, AccessCallsDependencies {
  readonly health: { readiness(): { readonly ready: boolean } };
}

/**
 * The read side over gRPC: what an index can answer of Flow's `AccessAPI`, and the standard services for health and reflection. It serves
 * from the first second on, also while nothing is indexed, and never touches the writers.
 */
export class GrpcApiServer {
  readonly #server: GrpcServer;
  readonly #health: HealthService;

  constructor(options: GrpcApiServerOptions, dependencies: GrpcApiServerDependencies) {
    const access = new AccessCalls(options, dependencies).calls();
    this.#health = new HealthService({ services: [ACCESS_API] }, dependencies);
    const paths = Object.entries(access).map(([method, call]) => [`/${ACCESS_API}/${method}`, call] as const);
    this.#server = new GrpcServer(options, {
      ...dependencies,
      calls: {
        unary: { ...Object.fromEntries(paths), ...this.#health.unary() },
        streams: this.#health.streams(),
        conversations: new ReflectionService({ descriptors: loadDescriptors() }).conversations(),
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

  close(): Promise<void> {
    this.#health.close();
    return this.#server.close();
  }
}
