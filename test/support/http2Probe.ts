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

const frame = (type: number, flags: number, stream: number, payload: Buffer): Buffer =>
  Buffer.concat([Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, stream]), payload]);

/** Frames by hand: Node.js refuses to send some that others send. */
export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');
export const SETTINGS = frame(4, 0, 0, Buffer.alloc(0));
/** The request of a call on stream 1: an empty message, and the end of what the caller sends. */
export const DATA = frame(0, 0x1, 1, Buffer.alloc(5));

/** Headers on stream 1. */
export function headersFrame(fields: Readonly<Record<string, string>>, isLast = false): Buffer {
  const text = (value: string): Buffer => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)]);
  // The byte before each name says: a literal, not to be remembered.
  const literals = Object.entries(fields).flatMap(([name, value]) => [
    Buffer.alloc(1),
    text(name),
    text(value),
  ]);
  return frame(1, isLast ? 0x5 : 0x4, 1, Buffer.concat(literals));
}

/** The head of a call on stream 1. */
export function callFrame(path: string, more: Readonly<Record<string, string>> = {}): Buffer {
  const head = { ':method': 'POST', ':scheme': 'http', ':path': path, ':authority': 'x' };
  return headersFrame({ ...head, 'content-type': 'application/grpc', te: 'trailers', ...more });
}
