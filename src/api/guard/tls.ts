import type { Server, TlsOptions } from 'node:tls';

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

/** Sets the certificate for new connections. */
export function renew(server: Pick<Server, 'setSecureContext'>, identity: TlsIdentity): void {
  server.setSecureContext(contextOf(identity));
}

function contextOf({ certificate, clientCa, key }: TlsIdentity) {
  return { cert: certificate, key, ...(clientCa === undefined ? {} : { ca: clientCa }) };
}
