import type { Server, TlsOptions } from 'node:tls';

/** For the TLS handshake of a connection. */
const HANDSHAKE_TIMEOUT_MS = 15_000;

/** With what a port speaks TLS; all of it in PEM. */
export interface TlsIdentity {
  readonly certificate: string;
  readonly key: string;
  /** Authorities whose client certificates count like a token. Absent: none is asked for. */
  readonly clientCa?: string | undefined;
}

/** What guards the ports of the read API. Can be cloned between threads. */
export interface ApiSecrets {
  /** Absent: the ports speak plain text. */
  readonly tls: TlsIdentity | undefined;
  /** SHA-256 of each bearer token, in hexadecimal digits. Absent: there are no tokens. */
  readonly tokens: readonly string[] | undefined;
  /** What needs a token, or a client certificate, where there are any. */
  readonly tokensFor: 'everything' | 'expensive';
}

/** What would guard a port, and does not. */
export function missingOf(secrets: ApiSecrets | undefined): readonly string[] {
  const asksAll = secrets?.tokens !== undefined && secrets.tokensFor === 'everything';
  return [...(secrets?.tls === undefined ? ['TLS'] : []), ...(asksAll ? [] : ['tokens for everything'])];
}

/**
 * For a server that speaks TLS. A client without a certificate, or with another's, is no error here: what it may do is decided
 * per request.
 */
export function tlsOptions(identity: TlsIdentity): TlsOptions {
  return {
    ...contextOf(identity),
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    requestCert: identity.clientCa !== undefined,
    rejectUnauthorized: false,
  };
}

/** New connections get this certificate; those that are open keep what they have. */
export function renew(server: Pick<Server, 'setSecureContext'>, identity: TlsIdentity): void {
  server.setSecureContext(contextOf(identity));
}

function contextOf({ certificate, clientCa, key }: TlsIdentity) {
  return { cert: certificate, key, ...(clientCa === undefined ? {} : { ca: clientCa }) };
}
