import { status } from '@grpc/grpc-js';
import { WireError } from '../../flow/index.js';
import type { Metrics } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import { asError } from '../../runtime/index.js';
import { openRpcChannel } from './channel/rpcChannel.js';
import { CallFailure } from './channel/CallFailure.js';
import { NodeConnections } from './channel/NodeConnections.js';
import type { OpenChannel, StreamCall } from './channel/rpcChannel.js';
import type { Endpoint } from './endpoint.js';
import { namedRoot, upstreamError } from './upstreamErrors.js';
import type { NodeHealthRecord } from '../selection/NodeHealthRecord.js';
import { MethodLimiter } from './limits/MethodLimiter.js';
import type { CallLimit, CallRank } from './limits/MethodLimiter.js';
import { MessageStream } from './streams/MessageStream.js';
import { StreamQuota } from './streams/StreamQuota.js';
import type { StreamRank } from './streams/StreamQuota.js';
import type { StreamSource } from './streams/MessageStream.js';
import type { MethodStubs } from './methodStubs.js';
import { UpstreamError } from '../UpstreamError.js';
import type { AccessMethod, CallOptions, StreamMethod, StreamOptions, UnaryMethod } from '../types.js';

/** A method that a node does not know is not tried again for this long: the node may be upgraded meanwhile. */
const UNSUPPORTED_MS = 300_000;
/** Streams whose data can be polled too. Execution data cannot: it gets precedence when streams are scarce. */
const POLLABLE: ReadonlySet<AccessMethod> = new Set<StreamMethod>([
  'SubscribeBlocksFromStartHeight',
  'SubscribeBlockDigestsFromLatest',
]);
/** The equivalent call, which is used while this one fails. */
const OTHER_WAY: Partial<Record<AccessMethod, AccessMethod>> = {
  SubscribeBlocksFromStartHeight: 'GetBlockByHeight',
  SubscribeBlockDigestsFromLatest: 'GetLatestBlockHeader',
  GetFullCollectionByID: 'GetCollectionByID',
  SubscribeExecutionDataFromStartBlockHeight: 'SubscribeExecutionData',
};
/** Callers that may wait for one method at one node. */
const MAX_WAITING_CALLS = 1_024;

export interface RpcClientOptions {
  readonly endpoint: Endpoint;
  /** Unary calls per second and method; 0 = no limit. */
  readonly ratePerSecond: number;
  readonly maxMessageBytes: number;
  /** Default deadline of a unary call, counted from when it is sent. */
  readonly timeoutMs: number;
  readonly userAgent: string;
}

/** The bearer token for other indexers, as it is by now. */
export type PeerToken = () => string | undefined;

/** The metrics of this room. */
export type AccessMetrics = Pick<
  Metrics,
  'upstreamRequests' | 'upstreamErrors' | 'upstreamLatency' | 'foreignNodes' | 'endpointLies'
>;

/** What a node reports to its pool. Called synchronously from within calls; must not throw. */
export interface NodeEvents {
  /** It refused a height as below its lowest one. */
  onLowestHeight?(height: number): void;
  /** It reported its latest finalized block. */
  onHead?(height: number): void;
  /** A call could not reach it, or its connection broke. */
  onOutage?(): void;
  /** Calls kept timing out and now use a new connection. Reported once until something is answered again. */
  onReconnect?(): void;
}

export interface RpcClientDependencies {
  readonly clock: Clock;
  /** See `MethodLimiter`. */
  readonly sharers?: (() => number) | undefined;
  readonly stubs: MethodStubs;
  readonly healthRecord: NodeHealthRecord;
  readonly metrics: AccessMetrics;
  readonly events?: NodeEvents;
  /** What every call to a peer brings along, as it is by then; `undefined`: nothing. Absent for access nodes. */
  readonly peerToken?: PeerToken | undefined;
  /** How the node is reached. Default: gRPC. */
  readonly openChannel?: OpenChannel | undefined;
}

/** The limit of one method. */
export interface MethodLimit extends CallLimit {
  readonly method: UnaryMethod;
}

/** One stream to open: the method, the request, how to decode, and the fallback for a node that does not know it. */
export interface StreamQuestion<T> {
  readonly method: StreamMethod;
  readonly request: object;
  readonly decode: (message: Buffer) => T;
  readonly otherwise?: StreamQuestion<T>;
}

/**
 * Every call to one node passes here: paced per method, counted, its outcome typed and entered in the node's health
 * record. It remembers methods that the node does not know, and replaces dead connections.
 */
export class RpcClient {
  /** Streams that make way end without an error. */
  readonly scarcity: StreamQuota;
  readonly #name: string;
  readonly #options: RpcClientOptions;
  readonly #clock: Clock;
  readonly #sharers: RpcClientDependencies['sharers'];
  readonly #stubs: MethodStubs;
  readonly #healthRecord: NodeHealthRecord;
  readonly #metrics: AccessMetrics;
  readonly #events: NodeEvents;
  readonly #peerToken: PeerToken | undefined;
  readonly #connections: NodeConnections;
  readonly #limiters = new Map<UnaryMethod, MethodLimiter>();
  readonly #unsupportedUntilMs = new Map<AccessMethod, number>();
  #calls = 0;

  constructor(options: RpcClientOptions, dependencies: RpcClientDependencies) {
    this.#options = options;
    this.#name = options.endpoint.name;
    this.#clock = dependencies.clock;
    this.#sharers = dependencies.sharers;
    this.scarcity = new StreamQuota({ clock: this.#clock });
    this.#stubs = dependencies.stubs;
    this.#healthRecord = dependencies.healthRecord;
    this.#metrics = dependencies.metrics;
    this.#events = dependencies.events ?? {};
    const { openChannel = openRpcChannel, peerToken: token } = dependencies;
    this.#peerToken = token;
    this.#connections = new NodeConnections({
      openChannel: () => openChannel(options, { clock: this.#clock, token }),
      events: this.#events,
    });
  }

  /** Unary calls under way. */
  get inFlight(): number {
    return this.#calls;
  }

  /** True while a rate limit that the node answered holds any method back. */
  get heldBack(): boolean {
    for (const limiter of this.#limiters.values()) if (limiter.heldBack) return true;
    return false;
  }

  /** The methods whose calls are limited now, by us or by what the node answered. */
  limits(): readonly MethodLimit[] {
    return [...this.#limiters].flatMap(([method, { limit }]) =>
      limit === undefined ? [] : [{ method, ...limit }],
    );
  }

  supports(method: AccessMethod, { isHistory = false } = {}): boolean {
    const isScarce = isHistory ? this.scarcity.scarceForHistory : this.scarcity.scarce;
    if (!this.#knows(method) || (POLLABLE.has(method) && isScarce)) return false;
    const other = OTHER_WAY[method];
    return other === undefined || !this.#knows(other) || !this.#healthRecord.isBetterAskedBy(other, method);
  }

  #knows(method: AccessMethod): boolean {
    return this.#clock.monotonic() >= (this.#unsupportedUntilMs.get(method) ?? -Infinity);
  }

  delayMs(method: UnaryMethod, { isHistory = false } = {}): number {
    return this.#limiter(method).delayMs(rankOf(isHistory));
  }

  /**
   * One question, one answer, when the limiter admits it. Expected errors: `UpstreamError`; the signal's abort reason.
   */
  async unary<T>(
    method: UnaryMethod,
    request: object,
    decode: (message: Buffer) => T,
    options: CallOptions = {},
  ): Promise<T> {
    const { signal, timeoutMs = this.#options.timeoutMs } = options;
    const rank = rankOf(options.isHistory);
    const limiter = this.#limiter(method);
    if (limiter.isFull(rank)) {
      throw new UpstreamError(
        'rate_limited',
        this.#where(method),
        `${method} at ${this.#name}: too many calls wait`,
      );
    }
    const admission = limiter.acquire(signal, rank);
    const permit = 'cuts' in admission ? admission : await admission;

    this.#metrics.upstreamRequests.inc({ endpoint: this.#name, method });
    const stub = this.#stubs[method];
    const channel = this.#connections.channelFor(method);
    const { generation } = channel;
    const startedMs = this.#clock.monotonic();
    this.#calls += 1;
    try {
      const message = await channel.unary(stub.path, stub.encode(request), { timeoutMs, signal });
      const elapsedMs = this.#clock.monotonic() - startedMs;
      this.#metrics.upstreamLatency.observe({ endpoint: this.#name, method }, elapsedMs / 1_000);
      this.#healthRecord.answeredIn(elapsedMs);
      if (limiter.succeeded(permit)) this.#healthRecord.succeeded(method);
      this.#connections.answered(method, generation);
      return decode(message);
    } catch (error) {
      const failure = this.#typed(error, method);
      if (failure instanceof UpstreamError) {
        if (failure.kind === 'rate_limited') {
          limiter.rateLimited(permit);
          // Not a rate limit, then: another call, or node, may be better.
          if (limiter.refusesEverything) this.#healthRecord.report('failing', failure.message, method);
        }
        // Any other error was sent by the node itself: it is there and its channel works.
        if (failure.kind === 'deadline') this.#connections.missedDeadline(generation);
        else if (failure.kind === 'unavailable') this.#connections.lost(method);
        else this.#connections.answered(method, generation);
        this.#count(failure);
      }
      throw failure;
    } finally {
      this.#calls -= 1;
    }
  }

  /** A stream of answers, taken one by one; see `MessageStream`. */
  stream<T>(question: StreamQuestion<T>, { signal, isHistory = false }: StreamOptions): AsyncIterable<T> {
    const { method } = question;
    // Nothing else would tell it apart from a stream that the node refuses.
    if (isHistory && this.scarcity.scarceForHistory) return this.#withoutStream(method);
    const rank: StreamRank = isHistory ? 'history' : POLLABLE.has(method) ? 'spare' : 'needed';
    return new MessageStream({ source: this.#source(question, rank), signal });
  }

  /** Further calls fail; calls under way end by their signals. */
  close(): void {
    this.#connections.close();
  }

  /** The limiter of a method that the indexer calls, for others who call it too; `undefined` for any other. */
  limiterOf(method: string): MethodLimiter | undefined {
    return Object.hasOwn(this.#stubs, method) ? this.#limiter(method as UnaryMethod) : undefined;
  }

  #limiter(method: UnaryMethod): MethodLimiter {
    let limiter = this.#limiters.get(method);
    if (limiter === undefined) {
      const { ratePerSecond } = this.#options;
      limiter = new MethodLimiter(
        { ratePerSecond, maxWaiting: MAX_WAITING_CALLS },
        { clock: this.#clock, sharers: this.#sharers },
      );
      this.#limiters.set(method, limiter);
    }
    return limiter;
  }

  /** A stream that fails at once. */
  #withoutStream<T>(method: StreamMethod): AsyncIterable<T> {
    const message = `${method} at ${this.#name}: the node grants few streams, and history makes way`;
    const error = new UpstreamError('rate_limited', this.#where(method), message);
    return { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(error) }) };
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
          const failure = this.#typed(error, method);
          if (failure instanceof UpstreamError) this.#count(failure);
          throw failure;
        }
      },
      fail: (callStatus) => {
        const failure = upstreamError(callStatus, this.#where(method), mendOf(this.#peerToken));
        this.#count(failure);
        if (failure.kind === 'rate_limited') this.scarcity.refused(rank);
        return failure;
      },
      ...(otherwise === undefined ? {} : { fallback: () => this.#source(otherwise, rank) }),
    };
  }

  /** Remembers the call, as one that may have to make way, until it is cancelled (every call is in the end). */
  #yielding(call: StreamCall, rank: Exclude<StreamRank, 'needed'>, end: () => void): StreamCall {
    const over = this.scarcity.yielding(end, rank);
    return {
      read: () => call.read(),
      cancel: () => {
        over();
        call.cancel();
      },
    };
  }

  /** The error as the caller sees it: statuses and malformed bytes typed; bugs and aborts unchanged. */
  #typed(error: unknown, method: AccessMethod): Error {
    if (error instanceof CallFailure)
      return upstreamError(error.status, this.#where(method), mendOf(this.#peerToken));
    if (error instanceof WireError) {
      const message = `${method} at ${this.#name}: malformed answer: ${error.message}`;
      return new UpstreamError('malformed', this.#where(method), message, { cause: error });
    }
    return asError(error);
  }

  #where(method: AccessMethod): { readonly node: string; readonly method: AccessMethod } {
    return { node: this.#name, method };
  }

  #count(failure: UpstreamError): void {
    const { kind, method, lowestHeight } = failure;
    this.#metrics.upstreamErrors.inc({ endpoint: this.#name, method, kind });
    if (kind === 'unimplemented') {
      this.#unsupportedUntilMs.set(method, this.#clock.monotonic() + UNSUPPORTED_MS);
    }
    // Where a stream begins says nothing about the node's other calls.
    const isOfNode = lowestHeight !== undefined && namedRoot(failure.message)?.of !== 'stream';
    if (kind === 'below_root' && isOfNode) this.#events.onLowestHeight?.(lowestHeight);
    if (kind === 'unavailable') this.#events.onOutage?.();
  }
}

function rankOf(isHistory: boolean | undefined): CallRank {
  return isHistory === true ? 'history' : 'live';
}

/** What to do about a peer that refuses us for want of a token, or because of it. */
function mendOf(peerToken: PeerToken | undefined): string | undefined {
  if (peerToken === undefined) return undefined;
  return peerToken() === undefined
    ? 'put one of its tokens into a file, and name that: --peer-token-file FILE'
    : 'it does not know the token of peerTokenFile: put one of its own into that file';
}
