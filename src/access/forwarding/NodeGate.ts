import { abortReason } from '../../runtime/index.js';
import type { Endpoint } from '../transport/endpoint.js';
import { MethodLimiter } from '../transport/limits/MethodLimiter.js';
import type { LimiterDependencies } from '../transport/limits/MethodLimiter.js';
import type { RpcClient } from '../transport/RpcClient.js';

/** A call to forward to one node. */
export interface AdmittedCall {
  readonly method: string;
  readonly isStream: boolean;
}

/** How a forwarded call ended, as far as it concerns the node's rate limit. */
export type AdmissionEnd = 'answered' | 'rate_limited' | 'other';

/** A call that may be sent. */
export interface Admission {
  /** Call it once, when the call is over. */
  over(end: AdmissionEnd): void;
  /** Calls `end` when the stream must make way for the indexer. */
  onMakeWay(end: () => void): void;
}

/** Why a call may not be sent. */
export type NotAdmitted =
  /** Too many wait, or streams are scarce. */
  | 'busy'
  /** The node may not be called now. */
  | 'gone'
  /** Whoever admits calls did not answer in time. */
  | 'silent';

/**
 * Admits forwarded calls behind the indexer's own: they get the part of a method's rate that the indexer leaves, and
 * their streams end when streams are scarce.
 */
export interface ForwardingAdmission {
  /** Waits until the call may be sent. Expected errors: the signal's abort reason. */
  admit(node: string, call: AdmittedCall, signal: AbortSignal): Promise<Admission | NotAdmitted>;
}

/** Forwarded calls that may wait for one method at one node. */
const MAX_WAITING_CALLS = 256;

/** Admits forwarded calls to one node. Their results do not count for or against it: clients decide what they contain. */
export class NodeGate {
  readonly endpoint: Endpoint;
  readonly #newLimiter: () => MethodLimiter;
  readonly #caller: Pick<RpcClient, 'scarcity' | 'limiterOf'>;
  /** Limiters of methods that the indexer does not call. Bounded: the forwarded methods are a fixed list. */
  readonly #limiters = new Map<string, MethodLimiter>();

  constructor(
    { endpoint, ratePerSecond }: { readonly endpoint: Endpoint; readonly ratePerSecond: number },
    dependencies: LimiterDependencies & {
      /** The indexer's own calls to the node: the methods that it calls as well share its limits. */
      readonly caller: Pick<RpcClient, 'scarcity' | 'limiterOf'>;
    },
  ) {
    this.endpoint = endpoint;
    this.#newLimiter = () =>
      new MethodLimiter({ ratePerSecond, maxWaiting: MAX_WAITING_CALLS }, dependencies);
    this.#caller = dependencies.caller;
  }

  /** Like `ForwardingAdmission.admit`. */
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
    const known = this.#caller.limiterOf(method) ?? this.#limiters.get(method);
    if (known !== undefined) return known;
    const limiter = this.#newLimiter();
    this.#limiters.set(method, limiter);
    return limiter;
  }
}
