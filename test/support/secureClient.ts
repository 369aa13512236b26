import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import type { RequestOptions } from 'node:https';
import { connect } from 'node:tls';
import { credentials, Metadata } from '@grpc/grpc-js';
import type { ChannelCredentials } from '@grpc/grpc-js';
import { certificateOf } from './secretFiles.js';
import type { CertificateName } from './secretFiles.js';

/** What a client of a guarded port brings. */
export interface Brought extends Pick<RequestOptions, 'cert' | 'key' | 'method'> {
  readonly token?: string;
  /** The certificate that it trusts. */
  readonly trusts?: CertificateName;
}

export interface SecureAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

/** One request over TLS, with a connection of its own. Rejects where none comes about. */
export function askSecurely(
  port: number,
  path: string,
  { token, trusts = 'localhost', ...rest }: Brought = {},
): Promise<SecureAnswer> {
  const options = {
    ...{ host: 'localhost', port, path, agent: false, ca: readFileSync(certificateOf(trusts)), ...rest },
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  };
  return new Promise((resolve, reject) => {
    request(options, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (text: string) => (body += text));
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body }),
      );
    })
      .on('error', reject)
      .end();
  });
}

/** Credentials of a gRPC client; the token goes with each call. */
export function grpcCredentials({
  token,
  trusts = 'localhost',
  cert,
  key,
}: Brought = {}): ChannelCredentials {
  const [ca, own] = [readFileSync(certificateOf(trusts)), [key, cert] as (Buffer | undefined)[]];
  const channel = credentials.createSsl(ca, own[0] ?? null, own[1] ?? null);
  if (token === undefined) return channel;
  const call = credentials.createFromMetadataGenerator((_options, give) => {
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${token}`);
    give(null, metadata);
  });
  return credentials.combineChannelCredentials(channel, call);
}

/** SHA-256 of the certificate that a new connection is shown. */
export function fingerprintShown(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(
      { port, host: 'localhost', rejectUnauthorized: false, ALPNProtocols: ['h2', 'http/1.1'] },
      () => {
        resolve(socket.getPeerCertificate().fingerprint256);
        socket.destroy();
      },
    ).on('error', reject);
  });
}
