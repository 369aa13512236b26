import { status } from '@grpc/grpc-js';
import { WireError } from '../../flow/index.js';
import { abortReason, asError, type Clock } from '../../runtime/index.js';
import { rpcChannel } from './channel/rpcChannel.js';
import { proxyFor, wordsOf } from './channel/proxy.js';
import { addressTurns, type ChannelOptions } from './channel/connection.js';
import type { Channel, OpenChannel, StreamCall } from './channel/rpcChannel.js';
import type { NodeHealthRecord } from '../selection/NodeHealthRecord.js';
import { callRanks, methodLimiter, type CallRank, type MethodLimiter } from './limits/methodLimiter.js';
import { pathOf } from './methodPaths.js';
import type { AccessMetrics, Admission, AdmittedCall, CallCredentials, NodeEvents } from './ports.js';
import { CUT, namedRoot, UNCONNECTED, UNSEEN, upstreamError, type CallStatus } from './upstreamErrors.js';
import { RefusedBlockError, UpstreamError, type UpstreamErrorKind } from '../UpstreamError.js';
import { unaryMethods } from '../types.js';
import type { AccessMethod, CallOptions, Rank, StreamMethod, UnaryMethod } from '../types.js';

/** The equivalent call, which is used while this one fails. */
const EQUIVALENTS: Partial<Record<AccessMethod, AccessMethod>> = {
  SubscribeBlocksFromStartHeight: 'GetBlockByHeight',
  SubscribeBlockDigestsFromLatest: 'GetLatestBlockHeader',
  GetFullCollectionByID: 'GetCollectionByID',
  SubscribeExecutionDataFromStartBlockHeight: 'SubscribeExecutionData',
};
/** Streams whose data can also be polled. Execution data cannot: it has priority when streams are scarce. */
const POLLABLE: ReadonlySet<AccessMethod> = new Set<StreamMethod>([
  'SubscribeBlocksFromStartHeight',
  'SubscribeBlockDigestsFromLatest',
]);
/** Answers that make up for one call whose connection was lost: rare losses are chance. */
const ANSWERS_PER_LOSS = 8;
/** The most answers that a method owes, however many of its calls were lost at once. */
const MAX_OWED_ANSWERS = 512;
/** How often to resend, at once, a call that the node never saw because its connection was ending. */
const MAX_SENT_AGAIN = 2;
/** Most calls at once with a connection of their own; the others share one. */
const MAX_CALLS_APART = 16;
/** A node that answered within this time is reachable: a proxy that refuses calls now is limiting its callers. */
const REACHED_MS = 2_000;
/** A node that refuses two connections within this time, and answers in between, accepts no more connections. */
const TURNED_AWAY_MS = 15_000;
/** Callers that may wait for one method at one node. */
const MAX_WAITING_CALLS = 1_024;
/** Forwarded calls that may wait at one node for a method that we do not call ourselves. */
const MAX_WAITING_FORWARDED_CALLS = 256;
/** A method that a node does not support is not tried again for this long: the node may be upgraded meanwhile. */
const UNSUPPORTED_MS = 300_000;

/** After a node refused a stream for lack of streams, no dispensable stream is opened there for this long. */
const SCARCE_MS = 60_000;

interface Reader<T> {
  readonly resolve: (result: IteratorResult<T, undefined>) => void;
  readonly reject: (error: Error) => void;
}

const DONE: IteratorReturnResult<undefined> = { done: true, value: undefined };

export interface RpcClientOptions extends ChannelOptions {
  /** Unary calls per second, per node and method; 0 = no limit. */
  readonly ratePerSecond: number;
  /** Default deadline of a unary call, counted from when it is sent. */
  readonly timeoutMs: number;
}

export interface RpcClientDependencies {
  readonly clock: Clock;
  /** Processes that share `ratePerSecond` now, this one included. Default: it alone. */
  readonly sharers?: (() => number) | undefined;
  /** The node is an indexer, which is asked for its blocks with their proofs. Default: an access node. */
  readonly isProvable?: boolean | undefined;
  readonly healthRecord: NodeHealthRecord;
  readonly metrics: AccessMetrics;
  readonly events?: NodeEvents | undefined;
  /** Default: calls carry nothing besides their request. */
  readonly credentials?: CallCredentials | undefined;
  /** Opens the channel to the node. Default: over gRPC. */
  readonly openChannel?: OpenChannel | undefined;
}

/** Decodes an answer. Expected errors: `WireError`; `RefusedBlockError`. */
export type Decode<T> = (message: Buffer) => T;

export interface StreamQuestion<T> {
  readonly method: StreamMethod;
  readonly request: Buffer;
  readonly decode: Decode<T>;
}

export type RpcClient = ReturnType<typeof rpcClient>;

/**
 * All calls and streams to one node: paces calls per method, counts them, types their errors and records their outcome in
 * the node's health record. When the node grants few streams, dispensable ones end to make way.
 *
 * It has one connection for all unary calls, one for each stream, and one for each call of a method whose calls keep
 * losing their connection. A connection that no longer gets answers is replaced.
 */
export function rpcClient(options: RpcClientOptions, dependencies: RpcClientDependencies) {
  const { clock, credentials, events, healthRecord, isProvable, metrics } = dependencies;
  const { endpoint } = options;
  const { name } = endpoint;
  /** By rank, the functions that end the open streams: where a node grants few, those of a lower rank make way. */
  const streams = {
    live: new Set<() => void>(),
    spare: new Set<() => void>(),
    history: new Set<() => void>(),
  };
  /** Until when no stream of the rank should be opened. */
  const scarceUntilMs = { live: -Infinity, spare: -Infinity, history: -Infinity };
  /** Consecutive new channels on which nothing was answered either. */
  let reconnects = 0;
  let isClosed = false;
  const turns = addressTurns(clock, () => reconnect());
  const open = (): Channel => {
    const parts = { clock, metadata: credentials?.metadata };
    const turned = { ...options, turn: turns.turn };
    return (dependencies.openChannel ?? rpcChannel)(turned, parts);
  };
  let shared = open();
  /**
   * Answers that a method owes since its calls lost their connection. A proxy may break it over one of them, or after a
   * few kilobytes: so each call has its own connection while more is owed than one loss adds.
   */
  const owed = new Map<UnaryMethod, number>();
  let apart = 0;
  /** When the node last gave what was requested: a refusal may come from a proxy, and at best its text shows that. */
  let gaveAtMs = -Infinity;
  /** When a call or stream last failed to connect. */
  let turnedAwayAtMs = -Infinity;
  /** Also of methods that we do not call ourselves. Bounded: the forwarded methods are a fixed list. */
  const limiters = new Map<string, MethodLimiter>();
  const unsupportedUntilMs = new Map<AccessMethod, number>();
  let calls = 0;

  const isScarce = (rank: CallRank): boolean => clock.monotonic() < scarceUntilMs[rank];

  /** The node refused a stream for lack of streams. */
  const makeWayFor = (rank: CallRank): void => {
    const untilMs = clock.monotonic() + SCARCE_MS;
    if (rank !== 'live') scarceUntilMs[rank] = untilMs;
    for (const lower of callRanks.slice(callRanks.indexOf(rank) + 1)) {
      scarceUntilMs[lower] = untilMs;
      for (const end of [...streams[lower]]) end();
    }
  };

  const limiterOf = (method: string): MethodLimiter => {
    const isOwn = unaryMethods.some((own) => own === method);
    const maxWaiting = isOwn ? MAX_WAITING_CALLS : MAX_WAITING_FORWARDED_CALLS;
    const limiter = limiters.get(method) ?? methodLimiter({ ...options, ...dependencies, maxWaiting });
    limiters.set(method, limiter);
    return limiter;
  };

  /** False while the method counts as unsupported by the node. */
  const knows = (method: AccessMethod): boolean =>
    clock.monotonic() >= (unsupportedUntilMs.get(method) ?? -Infinity);

  const errorOf = (kind: UpstreamErrorKind, method: AccessMethod, what: string, cause?: Error) =>
    new UpstreamError(kind, { node: name, method }, `${method} at ${name}: ${what}`, cause && { cause });

  const ofStatus = (callStatus: CallStatus, method: AccessMethod): UpstreamError => {
    const proxy = proxyFor(endpoint);
    const isReached = clock.monotonic() - gaveAtMs < REACHED_MS;
    const causes = { fix: credentials?.fix(), proxy: proxy && wordsOf(proxy, endpoint), isReached };
    return upstreamError(callStatus, { node: name, method }, causes);
  };

  /** Counts and types the error for the caller: undecodable and rejected answers become `UpstreamError`, bugs stay. */
  const failureOf = (error: unknown, method: AccessMethod): Error => {
    let failure = asError(error);
    if (failure instanceof WireError)
      failure = errorOf('malformed', method, `malformed answer: ${failure.message}`, failure);
    if (failure instanceof RefusedBlockError) {
      const { kind, message, reason } = failure;
      if (reason !== undefined) metrics.invalidBlocks.inc({ endpoint: name, reason });
      failure = errorOf(kind, method, message, failure);
    }
    if (!(failure instanceof UpstreamError)) return failure;
    const { kind, lowestHeight, message } = failure;
    metrics.upstreamErrors.inc({ endpoint: name, method, kind });
    if (kind === 'unimplemented') {
      const other = EQUIVALENTS[method];
      // It was called although unsupported, as its equivalent was too: the node may support that one by now.
      if (other !== undefined && !knows(method)) unsupportedUntilMs.delete(other);
      unsupportedUntilMs.set(method, clock.monotonic() + UNSUPPORTED_MS);
    }
    // The first height of a stream says nothing about the node's other calls.
    const isOfNode = lowestHeight !== undefined && namedRoot(message)?.of !== 'stream';
    if (kind === 'below_root' && isOfNode) events?.onLowestHeight?.(lowestHeight);
    if (kind === 'unavailable') events?.onOutage?.();
    return failure;
  };

  /** The node answered a call on this channel. */
  const answered = (method: UnaryMethod, channel: Channel): void => {
    owed.set(method, Math.max(0, (owed.get(method) ?? 0) - 1));
    if (channel !== shared) return;
    turns.answered();
    reconnects = 0;
  };

  /**
   * The node accepts no more connections (many allow each caller a few), but answers on the open ones. Not at the first
   * refusal: it may just be back.
   */
  const isFull = ({ details }: CallStatus): boolean => {
    if (!UNCONNECTED.test(details)) return false;
    const [before, nowMs] = [turnedAwayAtMs, clock.monotonic()];
    turnedAwayAtMs = nowMs;
    return nowMs - before < TURNED_AWAY_MS && gaveAtMs > before;
  };

  /** Only a broken connection counts: where none was made, or the node is unavailable, more of them would burden it. */
  const lost = (method: UnaryMethod, said: string): void => {
    const owes = CUT.test(said) && !isClosed ? (owed.get(method) ?? 0) + ANSWERS_PER_LOSS : 0;
    owed.set(method, Math.min(owes, MAX_OWED_ANSWERS));
  };

  /** Calls under way stay on the old connection. */
  const replaceShared = (): void => {
    shared.close();
    shared = open();
  };

  /** The shared channel may look alive and no longer send calls (grpc/grpc-node#3019, #2785). */
  const reconnect = (): void => {
    replaceShared();
    reconnects += 1;
    events?.onOutage?.();
    if (reconnects === 1) events?.onReconnect?.();
  };

  /**
   * A stream of answers: each `next()` requests one message from the channel, and nothing is read ahead. The first one opens
   * the call. Not an async generator, for speed: one promise per message.
   */
  const follow = <T>(
    { decode, method, request }: StreamQuestion<T>,
    signal: AbortSignal,
    rank: Rank,
  ): AsyncIterableIterator<T, undefined> => {
    const needed = POLLABLE.has(method) ? 'spare' : 'live';
    const streamRank = rank === 'history' ? rank : needed;
    let call: StreamCall | undefined;
    let waiting: Reader<T> | undefined;
    let isSilent = true;
    /** Set once the stream is over: what the next `next()` throws, if anything. */
    let end: { readonly error: Error | undefined } | undefined;

    const onAbort = (): void => finish(abortReason(signal));
    const finish = (error?: Error): void => {
      if (end !== undefined) return;
      const reader = waiting;
      end = { error: reader === undefined ? error : undefined };
      waiting = undefined;
      signal.removeEventListener('abort', onAbort);
      streams[streamRank].delete(finish);
      if (call !== undefined && isSilent) turns.next();
      call?.cancel();
      if (error === undefined) reader?.resolve(DONE);
      else reader?.reject(error);
    };
    const start = (): StreamCall => {
      // Fails at once: otherwise this would look like a stream that the node ended.
      if (streamRank === 'history' && isScarce(streamRank))
        throw errorOf('rate_limited', method, 'the node grants few streams, and history makes way');
      metrics.upstreamRequests.inc({ endpoint: name, method });
      // On its own connection. Otherwise a node or proxy that breaks the connection because of one call would break every
      // stream, and a stream that we do not read would use up the window of all. No further calls use it: it closes with this one.
      const channel = isClosed ? shared : open();
      const opened = channel.stream(pathOf(method, isProvable), request, {
        onMessage: (message) => {
          if (end !== undefined) return;
          isSilent = false;
          gaveAtMs = clock.monotonic();
          try {
            const value = decode(message);
            const reader = waiting;
            waiting = undefined;
            reader?.resolve({ done: false, value });
          } catch (error) {
            finish(failureOf(error, method));
          }
        },
        onEnd: (callStatus) => {
          if (end !== undefined) return;
          if (callStatus.code === status.OK) {
            finish();
            return;
          }
          const error = ofStatus(callStatus, method);
          if (error.kind === 'rate_limited' || isFull(callStatus)) makeWayFor(streamRank);
          finish(failureOf(error, method));
        },
      });
      channel.close();
      // Streams that make way end without an error.
      streams[streamRank].add(finish);
      signal.addEventListener('abort', onAbort, { once: true });
      return opened;
    };
    return {
      [Symbol.asyncIterator]() {
        return this;
      },
      next() {
        if (end === undefined && signal.aborted) finish(abortReason(signal));
        if (end !== undefined) {
          const { error } = end;
          // An error is thrown once; afterwards the iterator is simply done.
          end = { error: undefined };
          return error === undefined ? Promise.resolve(DONE) : Promise.reject(error);
        }
        return new Promise((resolve, reject) => {
          waiting = { resolve, reject };
          call ??= start();
          call.read();
        });
      },
      /** Cancels the call. A pending read ends as the end of the stream. */
      return() {
        finish();
        return Promise.resolve(DONE);
      },
    };
  };

  return {
    get inFlight(): number {
      return calls;
    },
    /** True while a rate limit that the node answered holds any method back. */
    get heldBack(): boolean {
      return unaryMethods.some((method) => limiters.get(method)?.heldBack() === true);
    },
    /** The methods whose calls are limited now, by us or by rate limits that the node answered. */
    limits: () =>
      unaryMethods.flatMap((method) => {
        const limit = limiters.get(method)?.limit();
        return limit === undefined ? [] : [{ method, ...limit }];
      }),
    supports: (method: AccessMethod, rank: Rank): boolean => {
      if (!knows(method)) return false;
      // While streams are scarce, what can be polled is.
      if (POLLABLE.has(method) && isScarce(rank === 'history' ? rank : 'spare')) return false;
      const other = EQUIVALENTS[method];
      return other === undefined || !knows(other) || !healthRecord.isBetterAskedBy(other, method);
    },
    delayMs: (method: UnaryMethod, rank: Rank): number => limiterOf(method).delayMs(rank),
    /**
     * One question, one answer, when the limiter admits it. Expected errors: `UpstreamError`; the signal's abort reason.
     */
    unary: async <T>(
      method: UnaryMethod,
      request: Buffer,
      decode: Decode<T>,
      rank: Rank,
      { signal, timeoutMs = options.timeoutMs }: CallOptions = {},
    ): Promise<T> => {
      const limiter = limiterOf(method);
      const admission = limiter.acquire(signal, rank);
      if (admission === undefined) throw errorOf('rate_limited', method, 'too many calls wait');
      const permit = typeof admission === 'number' ? admission : await admission;

      metrics.upstreamRequests.inc({ endpoint: name, method });
      const isApart = (owed.get(method) ?? 0) > ANSWERS_PER_LOSS && apart < MAX_CALLS_APART;
      let channel = isApart ? open() : shared;
      const startedMs = clock.monotonic();
      calls += 1;
      if (isApart) apart += 1;
      try {
        const ask = (over: Channel) => over.unary(pathOf(method, isProvable), request, { timeoutMs, signal });
        const answer = ask(channel);
        // No further calls use it: it closes with this one.
        if (isApart) channel.close();
        let message = await answer;
        for (let times = 0; times < MAX_SENT_AGAIN && 'code' in message; times += 1) {
          if (!UNSEEN.test(message.details)) break;
          metrics.upstreamRequests.inc({ endpoint: name, method });
          message = await ask((channel = shared));
        }
        if ('code' in message) {
          if (isFull(message)) makeWayFor('live');
          throw ofStatus(message, method);
        }
        gaveAtMs = clock.monotonic();
        metrics.upstreamLatency.observe({ endpoint: name, method }, (gaveAtMs - startedMs) / 1_000);
        healthRecord.answeredIn(gaveAtMs - startedMs);
        if (limiter.succeeded(permit)) healthRecord.succeeded(method);
        answered(method, channel);
        return decode(message);
      } catch (error) {
        const failure = failureOf(error, method);
        if (!(failure instanceof UpstreamError)) throw failure;
        if (failure.kind === 'rate_limited') {
          limiter.rateLimited(permit);
          // So the rate is not the reason: another call, or node, may be better.
          if (limiter.refusesEverything()) healthRecord.report('failing', failure.message, method);
        }
        // Any other error was sent by the node itself, so its channel works.
        if (failure.kind === 'deadline') {
          // A call on its own connection says nothing about the shared one.
          if (!isClosed && channel === shared) turns.unanswered(startedMs, 0);
        } else if (failure.kind === 'unavailable') lost(method, failure.message);
        else answered(method, channel);
        throw failure;
      } finally {
        if (isApart) apart -= 1;
        calls -= 1;
      }
    },
    /** Expected errors: `UpstreamError`; the signal's abort reason. */
    follow,
    /** Further calls go out over a new connection, to the next address of the name. */
    renew: (): void => {
      if (isClosed) return;
      turns.next();
      replaceShared();
    },
    /** Further calls fail; calls under way end by their signals. */
    close: (): void => {
      isClosed = true;
      shared.close();
      owed.clear();
    },
    /**
     * Admits a forwarded call behind our own; see `ForwardingAdmission`. Methods that we call as well share our limits. Its
     * result does not count for or against the node: the client decides what it contains.
     */
    admit: async ({ method, isStream }: AdmittedCall, signal: AbortSignal): Promise<Admission | 'busy'> => {
      if (isStream) {
        if (isScarce('spare')) return 'busy';
        let makeWay = (): void => undefined;
        const end = (): void => makeWay();
        streams.spare.add(end);
        return { over: () => streams.spare.delete(end), onMakeWay: (act) => (makeWay = act) };
      }
      const limiter = limiterOf(method);
      const permit = await limiter.acquire(signal, 'spare');
      if (permit === undefined) return 'busy';
      if (signal.aborted) throw abortReason(signal);
      return {
        over: (end) => {
          if (end === 'answered') limiter.succeeded(permit);
          else if (end === 'rate_limited') limiter.rateLimited(permit);
        },
        onMakeWay: () => undefined,
      };
    },
  };
}
