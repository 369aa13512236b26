import { createHash, timingSafeEqual } from 'node:crypto';
import { ApiError } from '../view/ApiError.js';
import type { ApiSecrets } from './tls.js';

/**
 * What a request costs: `open` ones are answered whatever they come with (what is the same in every installation, and
 * health), `expensive` ones stay open, take much to answer, or use the access nodes.
 */
export type Cost = 'open' | 'cheap' | 'expensive';

export interface GuardOptions {
  /** Absent: nothing is guarded. */
  readonly secrets?: ApiSecrets | undefined;
}

/** What a request came with. */
export interface Credentials {
  /** The header, or metadata, of that name. */
  readonly authorization: string | undefined;
  /** The connection has a client certificate that was verified. */
  readonly isKnownClient: boolean;
}

/** The digest by which a token is known. */
export function digestOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/** Says which requests are refused for want of a token or a client certificate. Tokens are held as digests. */
export class TokenGuard {
  #covers: ApiSecrets['tokensFor'] = 'everything';
  #digests: readonly Buffer[] = [];
  #isOn = false;

  constructor({ secrets }: GuardOptions) {
    if (secrets !== undefined) this.set(secrets);
  }

  /** Takes the place of what was known before. */
  set({ tls, tokens, tokensFor }: ApiSecrets): void {
    this.#covers = tokensFor;
    this.#digests = (tokens ?? []).map((digest) => Buffer.from(digest, 'hex'));
    this.#isOn = tokens !== undefined || tls?.clientCa !== undefined;
  }

  /** False: everybody may do everything. */
  get isOn(): boolean {
    return this.#isOn;
  }

  /** True where a request of this cost needs a token or a client certificate. */
  covers(cost: Cost): boolean {
    return this.#isOn && cost !== 'open' && (this.#covers === 'everything' || cost === 'expensive');
  }

  /** True for a caller that may do everything. */
  knows({ authorization, isKnownClient }: Credentials): boolean {
    if (!this.#isOn || isKnownClient) return true;
    const token = tokenOf(authorization);
    return token !== undefined && this.#has(token);
  }

  /** Why a request that is not from somebody known is refused. */
  refusal({ authorization }: Credentials): ApiError {
    const why =
      authorization === undefined
        ? 'a bearer token is needed here (Authorization: Bearer TOKEN), and none came'
        : tokenOf(authorization) === undefined
          ? 'a bearer token is needed here (Authorization: Bearer TOKEN), and what came is none'
          : 'this bearer token is not known here';
    return new ApiError(401, 'unauthorized', `${why}; ask whoever runs this daemon for one`);
  }

  /** Every digest is compared, in constant time each. */
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
