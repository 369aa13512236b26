import type { Clock } from '../../runtime/index.js';
import { abortReason } from '../../runtime/index.js';
import type { Endpoint } from '../transport/endpoint.js';
import { MethodLimiter } from '../transport/limits/MethodLimiter.js';
import type { StreamQuota } from '../transport/streams/StreamQuota.js';
import type { Admission, AdmittedCall } from './admission.js';

/** Forwarded calls that may wait for one method at one node. */
const MAX_WAITING_CALLS = 256;

export interface NodeGateOptions {
  readonly endpoint: Endpoint;
  readonly ratePerSecond: number;
}

export interface NodeGateDependencies {
  readonly clock: Clock;
  /** See `MethodLimiter`. */
  readonly sharers?: (() => number) | undefined;
  /** The indexer's own calls to the node. */
  readonly caller: {
    readonly scarcity: StreamQuota;
    /** Set for methods that the indexer calls as well. */
    limiterOf(method: string): MethodLimiter | undefined;
  };
}

/** Admits forwarded calls to one node. Their results do not count for or against it: clients decide what they contain. */
export class NodeGate {
  readonly endpoint: Endpoint;
  readonly #ratePerSecond: number;
  readonly #clock: Clock;
  readonly #sharers: NodeGateDependencies['sharers'];
  readonly #caller: NodeGateDependencies['caller'];
  /** Limiters of methods that the indexer does not call. Bounded: the forwarded methods are a fixed list. */
  readonly #limiters = new Map<string, MethodLimiter>();

  constructor(options: NodeGateOptions, dependencies: NodeGateDependencies) {
    this.endpoint = options.endpoint;
    this.#ratePerSecond = options.ratePerSecond;
    this.#clock = dependencies.clock;
    this.#sharers = dependencies.sharers;
    this.#caller = dependencies.caller;
  }

  /** Like `ForwardingDesk.admit`. */
  async admit({ method, isStream }: AdmittedCall, signal: AbortSignal): Promise<Admission | 'busy'> {
    if (isStream) return this.#admitStream();
    const limiter = this.#limiterOf(method);
    if (limiter.isFull('forwarded')) return 'busy';
    const permit = await limiter.acquire(signal, 'forwarded');
    if (signal.aborted) throw abortReason(signal);
    return {
      over: (end) => {
        if (end === 'answered') limiter.succeeded(permit);
        else if (end === 'rate_limited') limiter.rateLimited(permit);
      },
      onMakeWay: () => undefined,
    };
  }

  #admitStream(): Admission | 'busy' {
    const { scarcity } = this.#caller;
    if (scarcity.scarce) return 'busy';
    let makeWay = (): void => undefined;
    const leave = scarcity.yielding(() => makeWay());
    return { over: () => leave(), onMakeWay: (end) => (makeWay = end) };
  }

  #limiterOf(method: string): MethodLimiter {
    const shared = this.#caller.limiterOf(method) ?? this.#limiters.get(method);
    if (shared !== undefined) return shared;
    const limiter = new MethodLimiter(
      { ratePerSecond: this.#ratePerSecond, maxWaiting: MAX_WAITING_CALLS },
      { clock: this.#clock, sharers: this.#sharers },
    );
    this.#limiters.set(method, limiter);
    return limiter;
  }
}
