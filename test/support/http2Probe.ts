import { once } from 'node:events';
import { connect } from 'node:http2';
import type { ClientHttp2Session, ClientHttp2Stream, SecureClientSessionOptions } from 'node:http2';
import { atEnd } from './cleanup.js';

/** HTTP/2 without a gRPC client's good manners, until the end of the test. What breaks it is nobody's concern. */
export function sessionOn(url: string, options: SecureClientSessionOptions = {}): ClientHttp2Session {
  const session = connect(url, options);
  session.on('error', () => undefined);
  atEnd(() => session.destroy());
  return session;
}

/** The same to a local port, once the server has said how it wants it. */
export async function openSession(port: number, settings: object = {}): Promise<ClientHttp2Session> {
  const session = sessionOn(`http://127.0.0.1:${port}`, { settings });
  await once(session, 'remoteSettings');
  return session;
}

/** A call whose request is still to be sent. */
export function beginCall(session: ClientHttp2Session, path: string, more: object = {}): ClientHttp2Stream {
  const head = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' };
  return session.request({ ...head, ...more }).on('error', () => undefined);
}
