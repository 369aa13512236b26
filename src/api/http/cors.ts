import cors from '@fastify/cors';
import type { FastifyInstance } from 'fastify';

/** Means every origin. */
const ANY = '*';
/** How long a browser may keep the result of a preflight; Chromium's own limit. */
const PREFLIGHT_HOLDS_SECONDS = 7_200;
/** Headers that pages may read in addition to the safelisted ones. */
const EXPOSED_HEADERS = ['etag', 'retry-after', 'via'];

/**
 * Lets pages of other origins read responses. Call before anything that may refuse a request is added. `origins` is called at
 * each request: `*` among them allows every origin; an empty list allows none.
 */
export function allowOrigins(
  app: FastifyInstance,
  origins: () => readonly string[],
  methods: string[],
): void {
  const allowed = (): string | string[] | false => {
    const now = origins();
    return now.includes(ANY) ? ANY : now.length > 0 && [...now];
  };
  app.register(cors, {
    delegator: (_request, decide) =>
      decide(null, {
        origin: allowed(),
        methods,
        exposedHeaders: EXPOSED_HEADERS,
        maxAge: PREFLIGHT_HOLDS_SECONDS,
        // OPTIONS requests from other programs get the same response.
        strictPreflight: false,
      }),
  });
  app.after(() => {
    // Streams, forwarded responses and refusals are written past Fastify and need these headers too.
    app.addHook('onRequest', async (_request, reply) => {
      // If all pages get the same, or none gets anything, caches need not distinguish origins.
      if (!Array.isArray(allowed())) reply.removeHeader('vary');
      for (const [name, value] of Object.entries(reply.getHeaders())) {
        if (value !== undefined) reply.raw.setHeader(name, value);
      }
    });
  });
}

/** True for a request that no page sent, or that a page of an allowed origin sent. */
export function isAllowedOrigin(origin: string | undefined, origins: readonly string[]): boolean {
  return origin === undefined || origins.includes(ANY) || origins.includes(origin);
}
