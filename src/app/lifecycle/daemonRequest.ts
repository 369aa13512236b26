import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { connect, type TLSSocket } from 'node:tls';
import type { OwnAccess } from './daemonRecord.js';

export interface PlainResponse {
  readonly status: number;
  readonly bytes: Buffer;
}

/** One GET to a daemon, uncompressed, with our credentials. Rejects when no such server answers, or the signal aborts. */
export async function daemonRequest(
  { hostname, pathname, port, search }: URL,
  { certificate, token }: OwnAccess,
  signal: AbortSignal,
): Promise<PlainResponse> {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const socket = certificate === undefined ? undefined : await secured(host, port, certificate, signal);
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const to = { host, port: port === '' ? 80 : port, path: pathname + search, signal };
  // The global agent may be configured to use a proxy of the environment.
  const way = socket === undefined ? { agent: false as const } : { createConnection: () => socket };
  const sent = request({ ...to, ...way, headers: { 'accept-encoding': 'identity', ...authorization } });
  // A response that breaks off emits its own error.
  sent.on('error', () => undefined);
  try {
    const [response] = (await once(sent.end(), 'response')) as [IncomingMessage];
    return { status: response.statusCode ?? 0, bytes: await buffer(response) };
  } finally {
    sent.destroy();
  }
}

/**
 * A connection over TLS. Accepts a certificate of a known authority, or exactly the expected one (SHA-256, in the form of
 * `X509Certificate`): a daemon's certificate need not name the address at which this machine reaches it.
 */
async function secured(
  host: string,
  port: string,
  certificate: string,
  signal: AbortSignal,
): Promise<TLSSocket> {
  const socket = connect({
    host,
    port: port === '' ? 443 : Number(port),
    ...(isIP(host) === 0 ? { servername: host } : {}),
    // Checked below, before anything is sent.
    rejectUnauthorized: false,
  });
  try {
    await once(socket, 'secureConnect', { signal });
    if (!socket.authorized && socket.getPeerX509Certificate()?.fingerprint256 !== certificate)
      throw new Error('it has another certificate than the one that is known');
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}
