import cors from '@fastify/cors';
import type { FastifyInstance } from 'fastify';

/** Stands for every origin. */
const ANY = '*';
/** For how long a browser need not ask again; Chromium's own limit. */
const PREFLIGHT_HOLDS_SECONDS = 7_200;
/** What pages may read of an answer beyond what they always may. */
const EXPOSED_HEADERS = ['etag', 'retry-after', 'via'];

export interface CorsOptions {
  /** `*` among them: every origin. */
  readonly origins: readonly string[];
  readonly methods: readonly string[];
}

/** Lets pages of other origins read what is answered. To be called before anything that may refuse a request is added. */
export function allowOrigins(app: FastifyInstance, { origins, methods }: CorsOptions): void {
  app.register(cors, {
    origin: origins.includes(ANY) ? ANY : [...origins],
    methods: [...methods],
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: PREFLIGHT_HOLDS_SECONDS,
    // OPTIONS that no browser sent is told the same.
    strictPreflight: false,
  });
  app.after(() => {
    // Streams, forwarded answers and refusals are written past Fastify: they bear these headers as well.
    app.addHook('onRequest', async (_request, reply) => {
      for (const [name, value] of Object.entries(reply.getHeaders())) {
        if (value !== undefined) reply.raw.setHeader(name, value);
      }
    });
  });
}

/** True for a request that no page sent, or one of an origin that is allowed. What is no simple read asks this. */
export function isAllowedOrigin(origin: string | undefined, origins: readonly string[]): boolean {
  return origin === undefined || origins.includes(ANY) || origins.includes(origin);
}
