import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { handleServerStreamingCall, handleUnaryCall } from '@grpc/grpc-js';
import { packageRoot } from '../../runtime/index.js';
import { whenTaken } from '../feed/following.js';
import type { Cost } from '../guard/TokenGuard.js';
import { ApiError } from '../view/ApiError.js';
import { accessCalls } from './calls/accessCalls.js';
import { fieldsOf } from './calls/calls.js';
import type { DuplexCall, ServedCall, ServedCalls, StreamCall, UnaryCall } from './calls/calls.js';
import { feedCalls } from './calls/feedCalls.js';
import type { GrpcApiServer, GrpcApiServerDependencies, GrpcApiServerOptions } from './GrpcApiServer.js';
import { reflection } from './reflection.js';
import { refusalOf } from './refusals.js';

const ACCESS_API = 'flow.access.AccessAPI';
const EXECUTION_DATA_API = 'flow.executiondata.ExecutionDataAPI';
/** Flow's services, one file each below `proto/`. */
const FLOW_SERVICES = [
  [ACCESS_API, 'flow/access/access.proto'],
  [EXECUTION_DATA_API, 'flow/executiondata/executiondata.proto'],
] as const;
const HEALTH = '/grpc.health.v1.Health';
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
  const ofService = (
    service: string,
    responses: Readonly<Record<string, UnaryCall>>,
    begins: Readonly<Record<string, StreamCall>>,
  ): readonly Entry[] => [
    ...Object.entries(responses).map(([method, respond]): Entry => {
      return [`/${service}/${method}`, unary(respond, BULK.has(method) ? 'expensive' : 'cheap', server)];
    }),
    ...Object.entries(begins).map(([method, begin]): Entry => {
      return [`/${service}/${method}`, stream(begin, 'expensive', server)];
    }),
  ];
  return new Map([
    // The served calls replace these.
    ...unserved(options.accessNodes, server.forwarding),
    ...ofService(ACCESS_API, calls.access, streams.access),
    ...ofService(INDEX_API, calls.index, streams.index),
    [`${HEALTH}/Check`, unary(server.health.check, 'open', server)],
    [`${HEALTH}/Watch`, stream(server.health.watch, 'open', server)],
    ...reflection((error) => server.refusalFor(error)),
  ]);
}

/** A call with one response. What the index refuses is forwarded to a node, if allowed. */
function unary(respond: UnaryCall, cost: Cost, server: GrpcApiServer): ServedCall {
  const handler: handleUnaryCall<Buffer, Buffer> = (call, callback) => {
    void server.run(async () => {
      try {
        const message = await respond(fieldsOf(call.request));
        const letGo = server.hold(message.length);
        if (call.cancelled) letGo?.();
        else if (letGo !== undefined) call.once('cancelled', letGo);
        callback(null, message);
      } catch (error) {
        const { forwarding } = server;
        if (forwarding?.takes(call, error) === true) forwarding.serveRefused(call, callback, error);
        else callback(server.refusalFor(error));
      }
    });
  };
  return { type: 'unary', handler, cost };
}

/** A stream of responses. Only the index decides where one may begin; but some streams are served by nodes only. */
function stream(begin: StreamCall, cost: Cost, server: GrpcApiServer): ServedCall {
  const handler: handleServerStreamingCall<Buffer, Buffer> = (call) => {
    let letGo: (() => void) | undefined;
    call.once('cancelled', () => letGo?.());
    const sink = {
      send: (message: Buffer, onTaken: () => void): void => {
        // The library would never report it as taken.
        if (call.cancelled) return;
        letGo = server.hold(message.length);
        const taken = whenTaken(() => {
          letGo?.();
          onTaken();
        });
        call.write(message, taken);
      },
      end: (reason?: unknown): void => {
        if (reason === undefined) call.end();
        else server.endStream(call, server.refusalFor(reason));
      },
    };
    void server.run(async () => {
      try {
        const end = await begin(fieldsOf(call.request), sink);
        if (call.cancelled) end();
        else call.once('cancelled', end);
      } catch (error) {
        const { forwarding } = server;
        const isForwarded = forwarding?.takes(call, error) === true && error.reason === 'not_served';
        if (isForwarded) forwarding.serveRefusedStream(call);
        else sink.end(error);
      }
    });
  };
  return { type: 'serverStream', handler, cost };
}

/** Each of Flow's calls: forwarded, or refused with the reason and the node to ask instead. */
function unserved([first]: readonly string[], forwarding: GrpcApiServer['forwarding']): readonly Entry[] {
  const node = `an access node${first === undefined ? '' : `, such as ${first}`}`;
  return FLOW_SERVICES.flatMap(([service, file]) =>
    methodsIn(file).map((method): Entry => {
      const path = `/${service}/${method}`;
      if (forwarding !== undefined)
        return [path, { type: 'bidi', handler: forwarding.serve, cost: 'expensive', isForwarded: true }];
      const why =
        service === EXECUTION_DATA_API
          ? 'this index does not keep execution data'
          : (reasons.find(([pattern]) => pattern.test(method))?.[1] ?? 'this index does not have it');
      const message = `${method} is not served: ${why}; ask ${node}, or have the daemon forward such calls (api.forward)`;
      const refusal = new ApiError(404, 'not_served', message);
      // Before its first message is read: a transaction may be larger than any request we read.
      const refuse = (call: DuplexCall): void => void call.emit('error', refusalOf(refusal));
      return [path, { type: 'bidi', handler: refuse, cost: 'cheap' }];
    }),
  );
}

/** The methods in an interface file, read from its text: a parser would have to load all of `proto/` at the start. */
function methodsIn(file: string): readonly string[] {
  const text = readFileSync(join(packageRoot, 'proto', file), 'utf8');
  return [...text.matchAll(/^ *rpc (\w+)/gm)].map(([, method = '']) => method);
}
