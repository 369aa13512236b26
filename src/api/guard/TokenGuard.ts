import { createHash, timingSafeEqual } from 'node:crypto';
import { ApiError } from '../view/ApiError.js';
import type { ApiSecrets } from './tls.js';

/**
 * What a request costs. `open`: served without a token, because it is the same in every installation, or health. `expensive`:
 * a stream, a large response, or one that uses the access nodes.
 */
export type Cost = 'open' | 'cheap' | 'expensive';

/** The credentials of a request. */
export interface Credentials {
  /** The header or metadata entry of this name. */
  readonly authorization: string | undefined;
  /** The connection has a verified client certificate. */
  readonly isKnownClient: boolean;
}

/** The digest that identifies a token. */
export function digestOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/** Decides which requests are refused for lack of a token or a client certificate. Keeps tokens as digests. */
export class TokenGuard {
  #covers: ApiSecrets['tokensFor'] = 'everything';
  #digests: readonly Buffer[] = [];
  #isOn = false;
  /** Requests, or the metadata of calls, whose callers may do everything. */
  readonly #known = new WeakSet();

  /** Without secrets, nothing is guarded. */
  constructor({ secrets }: { readonly secrets?: ApiSecrets | undefined }) {
    if (secrets !== undefined) this.set(secrets);
  }

  /** Replaces all tokens. */
  set({ tls, tokens, tokensFor }: ApiSecrets): void {
    this.#covers = tokensFor;
    this.#digests = (tokens ?? []).map((digest) => Buffer.from(digest, 'hex'));
    this.#isOn = tokens !== undefined || tls?.clientCa !== undefined;
  }

  /** False: every caller may do everything. */
  get isOn(): boolean {
    return this.#isOn;
  }

  /** True if a request of this cost needs a token or a client certificate. */
  covers(cost: Cost): boolean {
    return this.#isOn && cost !== 'open' && (this.#covers === 'everything' || cost === 'expensive');
  }

  /**
   * Why a request is refused; `undefined` if it may pass. `take` gives its credentials and removes them, so that our tokens are
   * never forwarded to a node; it is called only where something is guarded.
   */
  check(request: WeakKey, cost: Cost, take: () => Credentials): ApiError | undefined {
    if (!this.#isOn) return undefined;
    const { authorization, isKnownClient } = take();
    const token = tokenOf(authorization);
    if (isKnownClient || (token !== undefined && this.#has(token))) {
      this.#known.add(request);
      return undefined;
    }
    if (!this.covers(cost)) return undefined;
    const why =
      authorization === undefined
        ? 'a bearer token is needed here (Authorization: Bearer TOKEN), but the request has none'
        : token === undefined
          ? 'a bearer token is needed here (Authorization: Bearer TOKEN), but the request has something else'
          : 'this bearer token is not known here';
    return new ApiError(401, 'unauthorized', `${why}; ask the operator of this daemon for one`);
  }

  /** Whether a request that passed may also use the access nodes. */
  mayForward(request: WeakKey): boolean {
    return !this.#isOn || this.#known.has(request);
  }

  /** Compares all digests, each in constant time. */
  #has(token: string): boolean {
    const given = Buffer.from(digestOf(token), 'hex');
    let isKnown = false;
    for (const digest of this.#digests) isKnown = timingSafeEqual(digest, given) || isKnown;
    return isKnown;
  }
}

function tokenOf(authorization: string | undefined): string | undefined {
  return /^bearer +([^\s]+) *$/i.exec(authorization ?? '')?.[1];
}
