import { isIPv4 } from 'node:net';
import type { Clock } from '../../runtime/index.js';
import { ApiError } from '../view/ApiError.js';

/** Addresses remembered at once; the one whose last request is oldest is forgotten first. */
const MAX_ADDRESSES = 10_000;
/** After a quiet time, an address may send at once what it may otherwise send in this time. */
const BURST_MS = 1_000;
/** Leading groups of an IPv6 address that name one customer's network (a /64). */
const NETWORK_GROUPS = 4;
const IPV6_GROUPS = 8;

/** Requests per second and address, for each address seen lately. */
export class AddressLimiter {
  #ratePerSecond: number;
  readonly #clock: Clock;
  /** By network, the least recent first: when its requests so far would be served at an even rate. */
  readonly #servedUntilMs = new Map<string, number>();

  /** 0: unlimited. */
  constructor(ratePerSecond: number, clock: Clock) {
    this.#ratePerSecond = ratePerSecond;
    this.#clock = clock;
  }

  /** Applies from the next request on. A caller that has used up the old rate waits no longer than the new rate requires. */
  setRate(ratePerSecond: number): void {
    this.#ratePerSecond = ratePerSecond;
    if (ratePerSecond === 0) this.#servedUntilMs.clear();
  }

  /** Addresses remembered now. */
  get size(): number {
    return this.#servedUntilMs.size;
  }

  /** Counts a request; returns its refusal, if any. */
  refusal(address = ''): ApiError | undefined {
    if (this.#ratePerSecond === 0) return undefined;
    const nowMs = this.#clock.monotonic();
    const network = networkOf(address);
    const servedUntilMs = Math.max(nowMs, this.#servedUntilMs.get(network) ?? 0);
    const untilMs = servedUntilMs + 1_000 / this.#ratePerSecond;
    const waitMs = untilMs - nowMs - BURST_MS;
    // Sums of fractions are not exact.
    const mustWait = waitMs > 0.1;
    // Reinserted at the end: the map's order is the order of forgetting.
    this.#servedUntilMs.delete(network);
    this.#servedUntilMs.set(network, mustWait ? servedUntilMs : untilMs);
    const [oldest] = this.#servedUntilMs.keys();
    if (this.#servedUntilMs.size > MAX_ADDRESSES && oldest !== undefined) this.#servedUntilMs.delete(oldest);
    if (!mustWait) return undefined;
    const retryAfterSeconds = Math.ceil(waitMs / 1_000);
    const message = `at most ${this.#ratePerSecond} requests per second are served to one address; retry in ${retryAfterSeconds} s`;
    return new ApiError(429, 'rate_limited', message, { retryAfterSeconds });
  }
}

/**
 * What counts as one address: an IPv4 address, even when written as an IPv6 one, or the /64 of an IPv6 address, because
 * a single machine can use as many of those as it likes.
 */
function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:/i, '').replace(/%.*$/, '');
  if (isIPv4(plain)) return plain;
  const [head = [], tail = []] = plain.split('::').map((part) => part.split(':').filter(Boolean));
  const zeros = Array<string>(Math.max(0, IPV6_GROUPS - head.length - tail.length)).fill('0');
  return [...head, ...zeros, ...tail].slice(0, NETWORK_GROUPS).join(':');
}
