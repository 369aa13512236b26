import { once } from 'node:events';
import { request } from 'node:http';
import { isIP } from 'node:net';
import { connect } from 'node:tls';
import type { OwnAccess } from './openSecretFiles.js';

export interface PlainResponse {
  readonly status: number;
  readonly bytes: Buffer;
}

/** One GET of a daemon, uncompressed, with our credentials. Rejects when no such server answers, or the signal aborts. */
export async function daemonRequest(
  url: URL,
  { certificate, token }: OwnAccess,
  signal: AbortSignal,
): Promise<PlainResponse> {
  const headers = {
    'accept-encoding': 'identity',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  };
  if (certificate !== undefined) return pinnedRequest(url, { certificate, headers, signal });
  const response = await fetch(url, { signal, headers });
  return { status: response.status, bytes: Buffer.from(await response.arrayBuffer()) };
}

/**
 * Over TLS. Accepts a certificate of a known authority, or exactly the expected one: a daemon's certificate need not name the
 * address at which this machine reaches it.
 */
async function pinnedRequest(
  { hostname, pathname, port, search }: URL,
  how: {
    /** SHA-256, in the form of `X509Certificate`. */
    readonly certificate: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly signal: AbortSignal;
  },
): Promise<PlainResponse> {
  const { certificate, headers, signal } = how;
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const socket = connect({
    host,
    port: port === '' ? 443 : Number(port),
    ...(isIP(host) === 0 ? { servername: host } : {}),
    // Checked below, before anything is sent.
    rejectUnauthorized: false,
  });
  const cut = (): void => void socket.destroy(new Error('cut'));
  signal.addEventListener('abort', cut, { once: true });
  if (signal.aborted) cut();
  try {
    await once(socket, 'secureConnect');
    if (!socket.authorized && socket.getPeerX509Certificate()?.fingerprint256 !== certificate)
      throw new Error('another certificate');
    return await new Promise((resolve, reject) => {
      socket.once('error', reject);
      const query = { path: pathname + search, headers: { ...headers, host: hostname } };
      const sent = request({ ...query, createConnection: () => socket }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => resolve({ status: response.statusCode ?? 0, bytes: Buffer.concat(chunks) }));
      });
      sent.on('error', reject);
      sent.end();
    });
  } finally {
    signal.removeEventListener('abort', cut);
    socket.destroy();
  }
}
