import type { IncomingHttpHeaders, ServerResponse } from 'node:http';

/** Means every origin. */
const ANY = '*';
/** How long a browser may keep the result of a preflight; Chromium's own limit. */
const PREFLIGHT_HOLDS_SECONDS = 7_200;
/** Headers that pages may read in addition to the safelisted ones. */
const EXPOSED_HEADERS = 'etag, retry-after, via';

/** Lets pages of these origins, one or more, read a response, however it is written. */
export function allowOrigins(
  { origin }: IncomingHttpHeaders,
  response: ServerResponse,
  origins: readonly string[],
): void {
  const isAny = origins.includes(ANY);
  // If all pages get the same, caches need not distinguish origins.
  if (!isAny) response.setHeader('vary', 'Origin');
  const allowed = isAny ? ANY : origins.find((one) => one === origin);
  if (allowed !== undefined) response.setHeader('access-control-allow-origin', allowed);
  response.setHeader('access-control-expose-headers', EXPOSED_HEADERS);
}

/** The further headers of the response to OPTIONS, whether a browser asks before a request or another program does. */
export function preflightHeaders(headers: IncomingHttpHeaders, methods: string): Record<string, string> {
  const asked = headers['access-control-request-headers'];
  return {
    'access-control-allow-methods': methods,
    ...(asked === undefined ? {} : { 'access-control-allow-headers': asked }),
    'access-control-max-age': String(PREFLIGHT_HOLDS_SECONDS),
    // Without it, Safari waits for a body.
    'content-length': '0',
  };
}

/** True for a request that no page sent, or that a page of an allowed origin sent. */
export function isAllowedOrigin(origin: string | undefined, origins: readonly string[]): boolean {
  return origin === undefined || origins.includes(ANY) || origins.includes(origin);
}
