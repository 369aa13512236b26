import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../runtime/index.js';
import { ApiError } from '../view/ApiError.js';
import { accessCalls } from './calls/accessCalls.js';
import type { ServedCall, ServedCalls, StreamCall, UnaryCall } from './calls/calls.js';
import { feedCalls } from './calls/feedCalls.js';
import type { GrpcApiServer, GrpcApiServerDependencies, GrpcApiServerOptions } from './GrpcApiServer.js';
import { reflection } from './reflection.js';
import { refusalOf } from './refusals.js';

const ACCESS_API = 'flow.access.AccessAPI';
const EXECUTION_DATA_API = 'flow.executiondata.ExecutionDataAPI';
/** Flow's services, each in a file of its own below `proto/`. */
const FLOW_SERVICES = [
  [ACCESS_API, 'flow/access/access.proto'],
  [EXECUTION_DATA_API, 'flow/executiondata/executiondata.proto'],
] as const;
/** Our own service. */
const INDEX_API = 'flow_collection_indexer.v1.IndexAPI';
/** The services over the index: Flow's, and our own. */
export const INDEX_SERVICES = [ACCESS_API, INDEX_API];

/** Methods with one response that may be as large as a block, or take as much to make. */
const BULK: ReadonlySet<string> = new Set(['GetTransactionsByBlockID', 'GetAccountTransactions']);

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

type Entry = readonly [path: string, call: ServedCall];

/** All calls of the server, and those of Flow that it forwards or refuses. */
export function servedCalls(
  options: GrpcApiServerOptions,
  dependencies: GrpcApiServerDependencies,
  server: GrpcApiServer,
): ServedCalls {
  const calls = accessCalls(options, dependencies);
  const streams = feedCalls(options, dependencies);
  return new Map([
    // Those that are served take their places.
    ...unserved(options.accessNodes, server.forwarding),
    ...entries(ACCESS_API, calls.access, unary),
    ...entries(INDEX_API, calls.index, unary),
    ...entries(ACCESS_API, streams.access, stream),
    ...entries(INDEX_API, streams.index, stream),
    ...server.health.calls,
    ...reflection((error) => server.refusalFor(error)),
  ]);
}

function entries<T>(
  service: string,
  methods: Readonly<Record<string, T>>,
  served: (call: T, method: string) => ServedCall,
): readonly Entry[] {
  return Object.entries(methods).map(([method, call]) => [`/${service}/${method}`, served(call, method)]);
}

function unary(respond: UnaryCall, method: string): ServedCall {
  return { kind: 'unary', respond, cost: BULK.has(method) ? 'expensive' : 'cheap' };
}

function stream(begin: StreamCall): ServedCall {
  return { kind: 'stream', begin, cost: 'expensive' };
}

/** Each of Flow's calls: forwarded, or refused with the reason and whom to ask instead. */
function unserved([first]: readonly string[], forwarding: GrpcApiServer['forwarding']): readonly Entry[] {
  const node = `an access node${first === undefined ? '' : `, such as ${first}`}`;
  return FLOW_SERVICES.flatMap(([service, file]) =>
    methodsIn(file).map((method): Entry => {
      const path = `/${service}/${method}`;
      if (forwarding !== undefined)
        return [path, { kind: 'forwarded', answer: forwarding.serve, cost: 'expensive' }];
      const why =
        service === EXECUTION_DATA_API
          ? 'this index does not keep execution data'
          : (reasons.find(([pattern]) => pattern.test(method))?.[1] ?? 'this index does not have it');
      const message = `${method} is not served: ${why}; ask ${node}, or have the daemon forward such calls (api.forward)`;
      const refusal = new ApiError(404, 'not_served', message);
      // Before its first message is read: a transaction may be larger than any request we read.
      return [
        path,
        { kind: 'duplex', answer: (call) => void call.emit('error', refusalOf(refusal)), cost: 'cheap' },
      ];
    }),
  );
}

/** The methods in an interface file, read from its text: a parser would have to load all of `proto/` at the start. */
function methodsIn(file: string): readonly string[] {
  const text = readFileSync(join(packageRoot, 'proto', file), 'utf8');
  return [...text.matchAll(/^ *rpc (\w+)/gm)].map(([, method = '']) => method);
}
