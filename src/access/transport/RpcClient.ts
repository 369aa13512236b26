import type { Clock } from '../../runtime/index.js';
import { openRpcChannel } from './channel/rpcChannel.js';
import { CallErrors } from './CallErrors.js';
import { NodeConnections } from './channel/NodeConnections.js';
import type { OpenChannel } from './channel/rpcChannel.js';
import type { Endpoint } from './endpoint.js';
import type { NodeHealthRecord } from '../selection/NodeHealthRecord.js';
import { MethodLimiter } from './limits/MethodLimiter.js';
import type { CallLimit, CallRank } from './limits/MethodLimiter.js';
import { NodeStreams } from './NodeStreams.js';
import type { StreamQuestion } from './NodeStreams.js';
import { StreamQuota } from './streams/StreamQuota.js';
import type { MethodStubs } from './methodStubs.js';
import type { AccessMetrics, NodeEvents, PeerToken } from './ports.js';
import { UpstreamError } from '../UpstreamError.js';
import type { AccessMethod, CallOptions, StreamOptions, UnaryMethod } from '../types.js';

/** The equivalent call, which is used while this one fails. */
const EQUIVALENTS: Partial<Record<AccessMethod, AccessMethod>> = {
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

export interface RpcClientDependencies {
  readonly clock: Clock;
  /** See `MethodLimiter`. */
  readonly sharers?: (() => number) | undefined;
  readonly stubs: MethodStubs;
  readonly healthRecord: NodeHealthRecord;
  readonly metrics: AccessMetrics;
  readonly events?: NodeEvents;
  /** The token that every call to a peer carries, read for each call; `undefined`: none. Absent for access nodes. */
  readonly peerToken?: PeerToken | undefined;
  /** Opens the channel to the node. Default: over gRPC. */
  readonly openChannel?: OpenChannel | undefined;
}

/** The limit of one method. */
export interface MethodLimit extends CallLimit {
  readonly method: UnaryMethod;
}

/**
 * All calls to one node: paces them per method, counts them, types their errors and records their outcome in the node's
 * health record. Replaces dead connections.
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
  readonly #connections: NodeConnections;
  readonly #errors: CallErrors;
  readonly #streams: NodeStreams;
  readonly #limiters = new Map<UnaryMethod, MethodLimiter>();
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
    const { openChannel = openRpcChannel, peerToken: token, events = {}, metrics, stubs } = dependencies;
    this.#connections = new NodeConnections({
      openChannel: () => openChannel(options, { clock: this.#clock, token }),
      events,
    });
    const name = this.#name;
    this.#errors = new CallErrors({ name }, { clock: this.#clock, peerToken: token, events, metrics });
    this.#streams = new NodeStreams(
      { name },
      { connections: this.#connections, errors: this.#errors, metrics, quota: this.scarcity, stubs },
    );
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

  /** The methods whose calls are limited now, by us or by rate limits that the node answered. */
  limits(): readonly MethodLimit[] {
    return [...this.#limiters].flatMap(([method, { limit }]) =>
      limit === undefined ? [] : [{ method, ...limit }],
    );
  }

  supports(method: AccessMethod, { isHistory = false } = {}): boolean {
    if (!this.#errors.knows(method) || !this.#streams.grants(method, isHistory)) return false;
    const other = EQUIVALENTS[method];
    if (other === undefined || !this.#errors.knows(other)) return true;
    return !this.#healthRecord.isBetterAskedBy(other, method);
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
      throw this.#errors.ofLimit(method, 'too many calls wait');
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
      const failure = this.#errors.typed(error, method);
      if (failure instanceof UpstreamError) {
        if (failure.kind === 'rate_limited') {
          limiter.rateLimited(permit);
          // So the rate is not the reason: another call, or node, may be better.
          if (limiter.refusesEverything) this.#healthRecord.report('failing', failure.message, method);
        }
        // Any other error was sent by the node itself, so its channel works.
        if (failure.kind === 'deadline') this.#connections.missedDeadline(generation);
        else if (failure.kind === 'unavailable') this.#connections.lost(method);
        else this.#connections.answered(method, generation);
        this.#errors.count(failure);
      }
      throw failure;
    } finally {
      this.#calls -= 1;
    }
  }

  /** A stream of answers, taken one by one; see `MessageStream`. */
  stream<T>(question: StreamQuestion<T>, options: StreamOptions): AsyncIterable<T> {
    return this.#streams.stream(question, options);
  }

  /** Further calls fail; calls under way end by their signals. */
  close(): void {
    this.#connections.close();
  }

  /** The limiter of a method that the indexer calls, to be shared with forwarded calls; `undefined` for other methods. */
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
}

function rankOf(isHistory: boolean | undefined): CallRank {
  return isHistory === true ? 'history' : 'live';
}
