import { createHash, timingSafeEqual } from 'node:crypto';
import { ApiError } from '../view/ApiError.js';
import type { ApiSecrets } from './tls.js';

/**
 * What a request costs. `open`: served without a token, because it is the same in every installation, or health. `expensive`:
 * a stream, a large response, or one that uses the access nodes.
 */
export type Cost = 'open' | 'cheap' | 'expensive';

export interface GuardOptions {
  /** Absent: nothing is guarded. */
  readonly secrets?: ApiSecrets | undefined;
}

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

  constructor({ secrets }: GuardOptions) {
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

  /** True for a caller that may do everything. */
  knows({ authorization, isKnownClient }: Credentials): boolean {
    if (!this.#isOn || isKnownClient) return true;
    const token = tokenOf(authorization);
    return token !== undefined && this.#has(token);
  }

  /** The refusal of a request without valid credentials. */
  refusal({ authorization }: Credentials): ApiError {
    const why =
      authorization === undefined
        ? 'a bearer token is needed here (Authorization: Bearer TOKEN), but the request has none'
        : tokenOf(authorization) === undefined
          ? 'a bearer token is needed here (Authorization: Bearer TOKEN), but the request has something else'
          : 'this bearer token is not known here';
    return new ApiError(401, 'unauthorized', `${why}; ask the operator of this daemon for one`);
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
