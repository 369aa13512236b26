import type { FastifyReply, FastifyRequest } from 'fastify';

/** Means every origin. */
const ANY = '*';
/** How long a browser may keep the result of a preflight; Chromium's own limit. */
const PREFLIGHT_HOLDS_SECONDS = 7_200;
/** Headers that pages may read in addition to the safelisted ones. */
const EXPOSED_HEADERS = 'etag, retry-after, via';

/**
 * Lets pages of these origins read the response, those of every origin with `*` among them. Returns true for a preflight, an OPTIONS
 * request of whomever, which is answered with that.
 */
export function allowOrigins(
  { headers, method }: FastifyRequest,
  { raw }: FastifyReply,
  origins: readonly string[],
  methods: string,
): boolean {
  if (origins.length === 0) return false;
  const { origin } = headers;
  // Where all pages get the same, caches need not distinguish origins.
  const isForAll = origins.includes(ANY);
  if (!isForAll) raw.setHeader('vary', 'origin');
  const allowed = isForAll ? ANY : origins.find((named) => named === origin);
  // Set past Fastify, as streams and forwarded responses are written, which need these headers too.
  if (allowed !== undefined) raw.setHeader('access-control-allow-origin', allowed);
  raw.setHeader('access-control-expose-headers', EXPOSED_HEADERS);
  if (method !== 'OPTIONS') return false;
  raw.setHeader('access-control-allow-methods', methods);
  const wanted = headers['access-control-request-headers'];
  if (wanted !== undefined) raw.setHeader('access-control-allow-headers', wanted);
  raw.setHeader('access-control-max-age', PREFLIGHT_HOLDS_SECONDS);
  return true;
}

/** True for a request that no page sent, or that a page of an allowed origin sent. */
export function isAllowedOrigin(origin: string | undefined, origins: readonly string[]): boolean {
  return origin === undefined || origins.includes(ANY) || origins.includes(origin);
}
