import { status } from '@grpc/grpc-js';
import type { CallErrors } from './CallErrors.js';
import type { NodeConnections } from './channel/NodeConnections.js';
import type { StreamCall } from './channel/rpcChannel.js';
import type { MethodStubs } from './methodStubs.js';
import type { AccessMetrics } from './ports.js';
import { MessageStream } from './streams/MessageStream.js';
import type { StreamSource } from './streams/MessageStream.js';
import type { StreamQuota, StreamRank } from './streams/StreamQuota.js';
import { UpstreamError } from '../UpstreamError.js';
import type { AccessMethod, StreamMethod, StreamOptions } from '../types.js';

/** Streams whose data can also be polled. Execution data cannot: it has priority when streams are scarce. */
const POLLABLE: ReadonlySet<AccessMethod> = new Set<StreamMethod>([
  'SubscribeBlocksFromStartHeight',
  'SubscribeBlockDigestsFromLatest',
]);

/** One stream to open: method, request, decoder, and the fallback for a node that does not support the method. */
export interface StreamQuestion<T> {
  readonly method: StreamMethod;
  readonly request: object;
  readonly decode: (message: Buffer) => T;
  readonly otherwise?: StreamQuestion<T>;
}

export interface NodeStreamsDependencies {
  readonly connections: NodeConnections;
  readonly errors: CallErrors;
  readonly metrics: Pick<AccessMetrics, 'upstreamRequests'>;
  /** Streams that make way end without an error. */
  readonly quota: StreamQuota;
  readonly stubs: MethodStubs;
}

/** Opens the streams of one node. When it grants few, dispensable ones end to make way. */
export class NodeStreams {
  readonly #name: string;
  readonly #connections: NodeConnections;
  readonly #errors: CallErrors;
  readonly #metrics: NodeStreamsDependencies['metrics'];
  readonly #quota: StreamQuota;
  readonly #stubs: MethodStubs;

  constructor(options: { readonly name: string }, dependencies: NodeStreamsDependencies) {
    this.#name = options.name;
    this.#connections = dependencies.connections;
    this.#errors = dependencies.errors;
    this.#metrics = dependencies.metrics;
    this.#quota = dependencies.quota;
    this.#stubs = dependencies.stubs;
  }

  /** False while streams are scarce and the method's data can be polled. */
  grants(method: AccessMethod, isHistory: boolean): boolean {
    return !POLLABLE.has(method) || !(isHistory ? this.#quota.scarceForHistory : this.#quota.scarce);
  }

  /** A stream of answers, taken one by one; see `MessageStream`. */
  stream<T>(question: StreamQuestion<T>, { signal, isHistory = false }: StreamOptions): AsyncIterable<T> {
    const { method } = question;
    // Fails at once: otherwise this would look like a stream that the node ended.
    if (isHistory && this.#quota.scarceForHistory)
      return failing(this.#errors.ofLimit(method, 'the node grants few streams, and history makes way'));
    const rank: StreamRank = isHistory ? 'history' : POLLABLE.has(method) ? 'spare' : 'needed';
    return new MessageStream({ source: this.#source(question, rank), signal });
  }

  #source<T>(question: StreamQuestion<T>, rank: StreamRank): StreamSource<T> {
    const { method, otherwise } = question;
    const stub = this.#stubs[method];
    return {
      open: (sink) => {
        this.#metrics.upstreamRequests.inc({ endpoint: this.#name, method });
        const request = stub.encode(question.request);
        const call = this.#connections.openStream(stub.path, request, sink);
        if (rank === 'needed') return call;
        return this.#yielding(call, rank, () => sink.onEnd({ code: status.OK, details: '' }));
      },
      decode: (message) => {
        try {
          return question.decode(message);
        } catch (error) {
          const failure = this.#errors.typed(error, method);
          if (failure instanceof UpstreamError) this.#errors.count(failure);
          throw failure;
        }
      },
      fail: (callStatus) => {
        const failure = this.#errors.ofStatus(callStatus, method);
        this.#errors.count(failure);
        if (failure.kind === 'rate_limited') this.#quota.refused(rank);
        return failure;
      },
      ...(otherwise === undefined ? {} : { fallback: () => this.#source(otherwise, rank) }),
    };
  }

  /** Remembers the call as one that may have to make way, until it is cancelled, as every call is in the end. */
  #yielding(call: StreamCall, rank: Exclude<StreamRank, 'needed'>, end: () => void): StreamCall {
    const over = this.#quota.yielding(end, rank);
    return {
      read: () => call.read(),
      cancel: () => {
        over();
        call.cancel();
      },
    };
  }
}

/** A stream that fails at once. */
function failing<T>(error: Error): AsyncIterable<T> {
  return { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(error) }) };
}
