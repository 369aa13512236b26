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
  /** 0: unlimited. */
  #ratePerSecond: number;
  readonly #clock: Clock;
  /** By network, the one that asked longest ago first. */
  readonly #buckets = new Map<string, Bucket>();

  constructor(options: { readonly ratePerSecond: number }, dependencies: { readonly clock: Clock }) {
    this.#ratePerSecond = options.ratePerSecond;
    this.#clock = dependencies.clock;
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

  /** Counts a request: 0 when it may pass, else the whole seconds until the next one may. */
  waitSeconds(address = ''): number {
    if (this.#ratePerSecond === 0) return 0;
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
      return 0;
    }
    return Math.ceil((1 - bucket.tokens) / this.#ratePerSecond);
  }

  refusal(waitSeconds: number): ApiError {
    const message = `at most ${this.#ratePerSecond} requests per second are served to one address; retry in ${waitSeconds} s`;
    return new ApiError(429, 'rate_limited', message);
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
