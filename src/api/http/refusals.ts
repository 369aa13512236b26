import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { shortened } from '../../runtime/index.js';
import { ApiError } from '../view/ApiError.js';
import { JSON_TYPE } from './types.js';

/** Fifty ids are 3,250 characters. */
const MAX_URL_LENGTH = 8192;
/** No request of ours needs a body; a larger one, or one of unknown length, is refused unread. */
const MAX_BODY_BYTES = 1024;
/** Limit of a forwarded body. A transaction of 1.5 MB is 2 MB in base64. */
export const MAX_FORWARDED_BODY_BYTES = 4 * 1024 * 1024;

/** What is wrong with a request on any path. */
export function refusalOf(
  { method, url, headers }: Pick<FastifyRequest, 'headers' | 'method' | 'url'>,
  isForwarded: boolean,
): ApiError | undefined {
  if (!isForwarded && method !== 'GET' && method !== 'HEAD') {
    const message = `${method} is not served: this index is read-only (GET, HEAD); send transactions and scripts to an access node, or have the daemon forward them (api.forwardRest)`;
    return new ApiError(405, 'method_not_allowed', message);
  }
  if (url.length > MAX_URL_LENGTH) {
    return new ApiError(414, 'too_large', `the URL is longer than ${MAX_URL_LENGTH} characters`);
  }
  const length = Number(headers['content-length'] ?? 0);
  if (isForwarded) return length > MAX_FORWARDED_BODY_BYTES ? forwardedBodyTooLarge() : undefined;
  return headers['transfer-encoding'] !== undefined || length > MAX_BODY_BYTES
    ? new ApiError(413, 'too_large', 'a request needs no body')
    : undefined;
}

export function forwardedBodyTooLarge(): ApiError {
  const message = `a forwarded request may have a body of ${MAX_FORWARDED_BODY_BYTES} bytes`;
  return new ApiError(413, 'too_large', message);
}

/** A refusal by the router itself, whose own message would repeat the whole URL; `undefined` for any other error. */
export function refusedByRouter(error: unknown): ApiError | undefined {
  if (!(error instanceof Error && 'statusCode' in error)) return undefined;
  const { statusCode } = error;
  if (typeof statusCode !== 'number' || statusCode < 400 || statusCode >= 500) return undefined;
  const message =
    'code' in error && error.code === 'FST_ERR_BAD_URL'
      ? 'the path is not well-formed: each % must begin the two hexadecimal digits of a byte, and the bytes must be UTF-8'
      : shortened(error.message);
  return new ApiError(statusCode, 'bad_request', message);
}

/**
 * Refuses bytes that are not an HTTP request, and requests that a limit cut off, then hangs up: at once where a response
 * `isUnderWay`, of which the refusal would become a part.
 */
export function refuseClient(
  error: Error & { readonly code?: string },
  socket: Socket,
  isUnderWay: boolean,
): void {
  // After a failed handshake, or without one in time, nothing can be written.
  const isTlsError = /^ERR_(?:SSL|TLS)_/.test(error.code ?? '');
  if (error.code === 'ECONNRESET' || isTlsError || isUnderWay || !socket.writable) {
    socket.destroy();
    return;
  }
  const refusal = clientRefusal(error);
  const body = JSON.stringify(refusal.body());
  socket.end(
    [
      `HTTP/1.1 ${refusal.code} ${STATUS_CODES[refusal.code]}`,
      `Content-Type: ${JSON_TYPE}`,
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Cache-Control: no-store',
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
    () => socket.destroy(),
  );
}

function clientRefusal({ code = '', message }: Parameters<typeof refuseClient>[0]): ApiError {
  if (code === 'HPE_HEADER_OVERFLOW') return new ApiError(431, 'too_large', 'URL and headers are too large');
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return new ApiError(408, 'bad_request', 'the request did not arrive in time');
  const why = /^HPE_(?:INVALID_METHOD|PAUSED_H2_UPGRADE)$/.test(code)
    ? 'this is not an HTTP/1 request; this port takes neither HTTP/2 nor the PROXY protocol of balancers'
    : `malformed request: ${message.replace('Parse Error: ', '')}`;
  return new ApiError(400, 'bad_request', why);
}
