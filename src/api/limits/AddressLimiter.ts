import { isIPv4 } from 'node:net';
import type { Clock } from '../../runtime/index.js';
import { ApiError } from '../view/ApiError.js';

/** Addresses remembered at once; the one whose last request is oldest is forgotten first. */
const MAX_ADDRESSES = 10_000;
/** What an address may send at once after a quiet time, in seconds of its rate. */
const BURST_SECONDS = 1;
const SECOND_MS = 1_000;
/** Leading groups of an IPv6 address that name one customer's network (a /64). */
const NETWORK_GROUPS = 4;
const IPV6_GROUPS = 8;

interface Bucket {
  tokens: number;
  filledAtMs: number;
}

/** Requests per second and address: a token bucket for each address seen lately. */
export class AddressLimiter {
  #ratePerSecond: number;
  readonly #clock: Clock;
  /** By network, the one that asked longest ago first. */
  readonly #buckets = new Map<string, Bucket>();

  /** 0: unlimited. */
  constructor(ratePerSecond: number, clock: Clock) {
    this.#ratePerSecond = ratePerSecond;
    this.#clock = clock;
  }

  /** Applies from the next request on. A caller that has used up the old rate waits no longer than the new rate requires. */
  setRate(ratePerSecond: number): void {
    this.#ratePerSecond = ratePerSecond;
    if (ratePerSecond === 0) this.#buckets.clear();
  }

  /** Addresses remembered now. */
  get size(): number {
    return this.#buckets.size;
  }

  /** Counts a request. Its refusal, unless it may pass. */
  refusal(address = ''): ApiError | undefined {
    if (this.#ratePerSecond === 0) return undefined;
    const nowMs = this.#clock.monotonic();
    const network = networkOf(address);
    const burst = this.#ratePerSecond * BURST_SECONDS;
    const bucket = this.#buckets.get(network) ?? { tokens: burst, filledAtMs: nowMs };
    // Reinserted at the end: the map's order is the order of forgetting.
    this.#buckets.delete(network);
    this.#buckets.set(network, bucket);
    const [oldest] = this.#buckets.keys();
    if (this.#buckets.size > MAX_ADDRESSES && oldest !== undefined) this.#buckets.delete(oldest);

    const gained = ((nowMs - bucket.filledAtMs) / SECOND_MS) * this.#ratePerSecond;
    bucket.tokens = Math.min(burst, bucket.tokens + gained);
    bucket.filledAtMs = nowMs;
    if (bucket.tokens >= 1) {
      bucket.tokens -= 1;
      return undefined;
    }
    const retryAfterSeconds = Math.ceil((1 - bucket.tokens) / this.#ratePerSecond);
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
  const [head = '', tail] = plain.split('::');
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    const rest = tail === '' ? [] : tail.split(':');
    while (groups.length + rest.length < IPV6_GROUPS) groups.push('0');
    groups.push(...rest);
  }
  return groups.slice(0, NETWORK_GROUPS).join(':');
}
