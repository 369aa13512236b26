import { serviceMethods } from '../../flow/index.js';
import type { FlowService } from '../../flow/index.js';
import { ApiError } from '../view/ApiError.js';
import { accessCalls } from './calls/accessCalls.js';
import { accountCalls } from './calls/accountCalls.js';
import type { GrpcCalls } from './calls/calls.js';
import { feedCalls } from './calls/feedCalls.js';
import type { GrpcApiServerDependencies, GrpcApiServerOptions } from './GrpcApiServer.js';
import type { HealthService } from './health.js';
import { reflection } from './reflection.js';

const ACCESS_API: FlowService = 'flow.access.AccessAPI';
const EXECUTION_DATA_API: FlowService = 'flow.executiondata.ExecutionDataAPI';
/** Our own service. */
const INDEX_API = 'flow_collection_indexer.v1.IndexAPI';
/** The services over the index: Flow's, and our own. */
export const INDEX_SERVICES = [ACCESS_API, INDEX_API];

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

/** All calls of the server, and those of Flow that it refuses. */
export function servedCalls(
  options: GrpcApiServerOptions,
  dependencies: GrpcApiServerDependencies,
  health: HealthService,
): GrpcCalls {
  const { access, index } = accessCalls(options, dependencies);
  const feeds = feedCalls(options, dependencies);
  const accounts = byPath(INDEX_API, accountCalls(dependencies));
  const unary = {
    ...byPath(ACCESS_API, access),
    ...byPath(INDEX_API, index),
    ...accounts,
    ...health.unary,
  };
  const streams = {
    ...byPath(ACCESS_API, feeds.access),
    ...byPath(INDEX_API, feeds.index),
    ...health.streams,
  };
  return {
    unary,
    streams,
    conversations: reflection(),
    refused: notServed(options.accessNodes, { ...unary, ...streams }),
    open: new Set(Object.keys({ ...health.unary, ...health.streams })),
    bulk: new Set([...Object.keys(accounts), `/${ACCESS_API}/GetTransactionsByBlockID`]),
  };
}

/** By path: why each of Flow's calls that is missing here is not served, and whom to ask instead. */
function notServed(
  [first]: readonly string[],
  served: Readonly<Record<string, unknown>>,
): Readonly<Record<string, ApiError>> {
  const node = `an access node${first === undefined ? '' : `, such as ${first}`}`;
  const refusals = [ACCESS_API, EXECUTION_DATA_API].flatMap((service) =>
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

function byPath<T>(service: string, methods: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  return Object.fromEntries(
    Object.entries(methods).map(([method, call]) => [`/${service}/${method}`, call] as const),
  );
}
