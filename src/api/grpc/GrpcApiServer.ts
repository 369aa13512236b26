import type { ChangeFeed } from '../feed/ChangeFeed.js';
import { accessCalls } from './calls/accessCalls.js';
import type { AccessCallsDependencies, AccessCallsOptions } from './calls/accessCalls.js';
import { accountCalls } from './calls/accountCalls.js';
import { blockStreams } from './calls/blockStreams.js';
import { GrpcServer } from './GrpcServer.js';
import type { GrpcServerDependencies, GrpcServerOptions } from './GrpcServer.js';
import { HealthService } from './HealthService.js';
import { indexStreams } from './calls/indexStreams.js';
import { ReflectionService } from './ReflectionService.js';
import { serviceMethods } from '../../flow/index.js';
import type { FlowService } from '../../flow/index.js';
import { ApiError } from '../view/ApiError.js';

const EXECUTION_DATA_API: FlowService = 'flow.executiondata.ExecutionDataAPI';

/** Why a method of AccessAPI is not served. The first match counts. */
const reasons: readonly (readonly [method: RegExp, why: string])[] = [
  [/^Send/, 'this index is read-only and accepts no transactions'],
  [/TransactionResult/, 'this index does not keep transaction results'],
  [/SystemTransaction|ScheduledTransaction/, 'this index does not keep system transactions'],
  [/^GetAccount/, 'this index does not keep accounts'],
  [/^ExecuteScript/, 'this index does not keep the state that scripts read'],
  [/^GetEvents/, 'this index does not keep events'],
  [/ProtocolState/, 'this index does not keep protocol states'],
  [/^GetExecution/, 'this index does not keep execution results'],
];

/** By path: why each of Flow's calls that is missing here is not served, and whom to ask instead. */
function notServed(
  options: { readonly accessApi: FlowService; readonly accessNodes: readonly string[] },
  { served }: { readonly served: Readonly<Record<string, unknown>> },
): Readonly<Record<string, ApiError>> {
  const { accessApi, accessNodes } = options;
  const [first] = accessNodes;
  const node = `an access node${first === undefined ? '' : `, such as ${first}`}`;
  const refusals = [accessApi, EXECUTION_DATA_API].flatMap((service) =>
    serviceMethods(service).map((method): [path: string, refusal: ApiError] => {
      const why =
        service === EXECUTION_DATA_API
          ? 'this index does not keep execution data'
          : (reasons.find(([pattern]) => pattern.test(method))?.[1] ?? 'this index does not have it');
      const message = `${method} is not served: ${why}; ask ${node}, or have the daemon forward such calls (api.forward)`;
      return [`/${service}/${method}`, new ApiError(404, 'not_served', message)];
    }),
  );
  return Object.fromEntries(refusals.filter(([path]) => !(path in served)));
}

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
    const { feed, store } = dependencies;
    const health = new HealthService({ services: [ACCESS_API, INDEX_API] }, dependencies);
    const accounts = byPath(INDEX_API, accountCalls(dependencies));
    const calls = accessCalls(options, dependencies);
    const unary = {
      ...byPath(ACCESS_API, calls.access),
      ...byPath(INDEX_API, calls.index),
      ...accounts,
      ...health.unary(),
    };
    const open = new Set([...Object.keys(health.unary()), ...Object.keys(health.streams())]);
    const bulk = new Set([...Object.keys(accounts), `/${ACCESS_API}/GetTransactionsByBlockID`]);
    const streams = {
      ...byPath(ACCESS_API, blockStreams(options, { feed, reader: store })),
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
