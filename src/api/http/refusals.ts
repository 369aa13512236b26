import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from '../../observability/index.js';
import { messageOf, OperatorError, shortened } from '../../runtime/index.js';
import { ApiError } from '../view/ApiError.js';
import { RETRY_AFTER_SECONDS } from './ResponseBuffer.js';

/** Fifty ids are 3,250 characters. */
const MAX_URL_LENGTH = 8192;
/** No request needs a body; one that is larger, or of unknown length, is refused unread. */
const MAX_BODY_BYTES = 1024;

/** What is wrong with a request before anyone looks at its path; `undefined` for nothing. */
export function refusalOf(method: string, url: string, headers: IncomingHttpHeaders): ApiError | undefined {
  if (method !== 'GET' && method !== 'HEAD') {
    const message = `${method} is not served: this is an index to read from (GET, HEAD); send transactions and scripts to an access node, or have the daemon forward them (api.forwardRest)`;
    return new ApiError(405, 'method_not_allowed', message);
  }
  if (url.length > MAX_URL_LENGTH) return urlTooLong();
  const length = Number(headers['content-length'] ?? 0);
  if (headers['transfer-encoding'] !== undefined || length > MAX_BODY_BYTES) {
    return new ApiError(413, 'too_large', 'a request needs no body');
  }
  return undefined;
}

/** As `refusalOf`, of a request that is passed on: its body has a bound of its own, which is held again while it is read. */
export function refusalOfForwarded(
  url: string,
  headers: IncomingHttpHeaders,
  maxBodyBytes: number,
): ApiError | undefined {
  if (url.length > MAX_URL_LENGTH) return urlTooLong();
  return Number(headers['content-length'] ?? 0) > maxBodyBytes
    ? forwardedBodyTooLarge(maxBodyBytes)
    : undefined;
}

/** A request with a body that is larger than any that is forwarded. */
export function forwardedBodyTooLarge(maxBodyBytes: number): ApiError {
  return new ApiError(413, 'too_large', `a request that is forwarded may bring ${maxBodyBytes} bytes`);
}

function urlTooLong(): ApiError {
  return new ApiError(414, 'too_large', `the URL is longer than ${MAX_URL_LENGTH} characters`);
}

/** Refuses by hand, where no handler answers. The connection ends with it while the request has not been read. */
export function writeRefusal(
  response: ServerResponse,
  error: ApiError,
  { isBodyUnread }: { readonly isBodyUnread: boolean },
): void {
  const body = JSON.stringify(error.body());
  response.statusCode = error.code;
  response.setHeader('content-type', 'application/json; charset=UTF-8');
  response.setHeader('content-length', Buffer.byteLength(body));
  response.setHeader('cache-control', 'no-store');
  if (error.code === 503) response.setHeader('retry-after', RETRY_AFTER_SECONDS);
  if (isBodyUnread) response.setHeader('connection', 'close');
  response.end(body);
}

/** What the router itself refuses, in words of ours: its own repeat the whole URL. */
export function refusedByRouter(error: Error, status: number): ApiError {
  const message =
    'code' in error && error.code === 'FST_ERR_BAD_URL'
      ? 'the path is not well-formed: each % has to begin the two hexadecimal digits of a byte, and the bytes have to be UTF-8'
      : shortened(error.message);
  return new ApiError(status, 'bad_request', message);
}

/** Answers bytes that are no HTTP request, and requests that were cut off by a limit, then hangs up. */
export function refuseClient(error: Error & { readonly code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const refusal = clientRefusals.get(error.code ?? '') ?? malformed;
  const body = JSON.stringify(new ApiError(refusal.code, refusal.reason, refusal.message).body());
  socket.end(
    [
      `HTTP/1.1 ${refusal.code} ${refusal.title}`,
      'Content-Type: application/json; charset=UTF-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
    () => socket.destroy(),
  );
}

const malformed = {
  code: 400,
  reason: 'bad_request',
  title: 'Bad Request',
  message: 'this is not an HTTP request',
} as const;

const clientRefusals: ReadonlyMap<
  string,
  {
    readonly code: number;
    readonly reason: 'too_large' | 'bad_request';
    readonly title: string;
    readonly message: string;
  }
> = new Map([
  [
    'HPE_HEADER_OVERFLOW',
    {
      code: 431,
      reason: 'too_large',
      title: 'Request Header Fields Too Large',
      message: 'URL and headers are too large',
    },
  ],
  [
    'ERR_HTTP_REQUEST_TIMEOUT',
    {
      code: 408,
      reason: 'bad_request',
      title: 'Request Timeout',
      message: 'the request did not arrive in time',
    },
  ],
]);

/** True for an address that only this machine reaches. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host);
}

/** For a server that listens: says so in the log where others than this machine reach it. */
export function warnWhenExposed(
  logger: Logger,
  server: 'api' | 'metrics' | 'grpc',
  address: { readonly host: string; readonly port: number },
): void {
  if (isLoopback(address.host)) return;
  logger.warn({ server, ...address }, 'listening beyond this machine: whoever reaches the port can read');
}

/** Why a server cannot listen, with the flag that mends it. An error that nobody foresaw comes back as it is. */
export function listenError(
  error: unknown,
  where: {
    readonly host: string;
    readonly port: number;
    /** Names the flag of the host, and of the port where `portFlag` does not. */
    readonly settings: 'api' | 'metrics';
    readonly portFlag?: string;
  },
): unknown {
  const { host, port, settings, portFlag = `--${settings}-port` } = where;
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  const refuse = (message: string): OperatorError =>
    new OperatorError('configuration', message, { cause: error });
  switch (code) {
    case 'EADDRINUSE':
      return refuse(
        `Port ${port} on ${host} is in use, perhaps by another daemon. Choose another one with ${portFlag}, or stop the program that uses it.`,
      );
    case 'EACCES':
      return refuse(
        `This user may not listen on port ${port} of ${host}. Choose a port from 1024 on with ${portFlag}.`,
      );
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return refuse(
        `This machine has no address ${host} to listen on (${messageOf(error)}). Choose another one with --${settings}-host.`,
      );
    default:
      return error;
  }
}
