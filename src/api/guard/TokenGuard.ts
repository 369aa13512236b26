import { createHash, timingSafeEqual } from 'node:crypto';
import type { Socket } from 'node:net';
import { TLSSocket, type TlsOptions } from 'node:tls';
import { ApiError } from '../view/ApiError.js';

/** For the TLS handshake of a connection. */
const HANDSHAKE_TIMEOUT_MS = 15_000;

/** Certificate and key of a TLS port, in PEM. */
export interface TlsIdentity {
  readonly certificate: string;
  readonly key: string;
  /** Authorities whose client certificates count like a token. Absent: none is requested. */
  readonly clientCa?: string | undefined;
}

/** What guards the ports of the read API. Can be cloned between threads. */
export interface ApiSecrets {
  /** Absent: the ports speak plain text. */
  readonly tls: TlsIdentity | undefined;
  /** SHA-256 of each bearer token, in hexadecimal digits. Absent: there are no tokens. */
  readonly tokens: readonly string[] | undefined;
  /** Which requests need a token or a client certificate, if there are any. */
  readonly tokensFor: 'everything' | 'expensive';
}

/** The protections that a port lacks. */
export function missingOf(secrets: ApiSecrets | undefined): readonly string[] {
  const asksAll = secrets?.tokens !== undefined && secrets.tokensFor === 'everything';
  return [...(secrets?.tls === undefined ? ['TLS'] : []), ...(asksAll ? [] : ['tokens for everything'])];
}

/**
 * Options of a TLS server. It accepts a client without a certificate, or with one of another authority: each request decides what
 * the client may do.
 */
export function tlsOptions(identity: TlsIdentity): TlsOptions {
  return {
    ...contextOf(identity),
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    requestCert: identity.clientCa !== undefined,
    rejectUnauthorized: false,
  };
}

export function contextOf({ certificate, clientCa, key }: TlsIdentity) {
  return { cert: certificate, key, ...(clientCa === undefined ? {} : { ca: clientCa }) };
}

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

/**
 * Whether a connection has a verified client certificate. Node.js also reports `authorized` for a resumed session (TLS 1.3) that
 * never had a certificate.
 */
export function isKnownClient(socket: Socket): boolean {
  return socket instanceof TLSSocket && socket.authorized && socket.getPeerX509Certificate() !== undefined;
}

/** The digest that identifies a token. */
export function digestOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/** Decides which requests are refused for lack of a token or a client certificate. Keeps tokens as digests. */
export class TokenGuard {
  /** Without secrets, nothing is guarded. */
  secrets: ApiSecrets | undefined;
  /** Requests, or the metadata of calls, whose callers may do everything. */
  readonly #known = new WeakSet();

  constructor(secrets: ApiSecrets | undefined) {
    this.secrets = secrets;
  }

  /** False: every caller may do everything. */
  get isOn(): boolean {
    return this.secrets?.tokens !== undefined || this.secrets?.tls?.clientCa !== undefined;
  }

  /** True if a request of this cost needs a token or a client certificate. */
  covers(cost: Cost): boolean {
    const coversAll = this.secrets?.tokensFor === 'everything';
    return this.isOn && cost !== 'open' && (coversAll || cost === 'expensive');
  }

  /**
   * Why a request is refused; `undefined` if it may pass. `take` returns its credentials and removes them, so that our tokens are
   * never forwarded to a node; it is called only if something is guarded.
   */
  check(request: WeakKey, cost: Cost, take: () => Credentials): ApiError | undefined {
    if (!this.isOn) return undefined;
    const { authorization, isKnownClient } = take();
    const token = /^bearer +([^\s]+) *$/i.exec(authorization ?? '')?.[1];
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
    return !this.isOn || this.#known.has(request);
  }

  /** Compares all digests, each in constant time. */
  #has(token: string): boolean {
    const given = Buffer.from(digestOf(token), 'hex');
    let isKnown = false;
    for (const digest of this.secrets?.tokens ?? [])
      isKnown = timingSafeEqual(Buffer.from(digest, 'hex'), given) || isKnown;
    return isKnown;
  }
}
