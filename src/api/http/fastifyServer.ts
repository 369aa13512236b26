import fastify from 'fastify';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { tlsOptions } from '../guard/tls.js';
import type { TlsIdentity } from '../guard/tls.js';
import { refuseClient } from './refusals.js';

/** Request line and headers together. */
const MAX_HEADER_BYTES = 16_384;
/** For a request to arrive completely. */
const REQUEST_TIMEOUT_MS = 15_000;
/** Interval of the check for late requests. */
const LATE_REQUESTS_EVERY_MS = 1_000;
/** For a connection on which nothing moves. */
const CONNECTION_TIMEOUT_MS = 60_000;
/** For a connection between two requests: longer than the idle time of most balancers, which is 60 s. */
const KEEP_ALIVE_MS = 75_000;

/** Fastify's own compilers take 40 ms to load, and no route has a schema to compile. */
const NO_COMPILERS = { buildValidator: refuseSchema, buildSerializer: refuseSchema };

function refuseSchema(): never {
  throw new Error('a route has a schema, and nothing compiles it');
}

export interface FastifyLimits {
  /** For a request to arrive completely. Default: REQUEST_TIMEOUT_MS. */
  readonly requestTimeoutMs?: number;
  /** For a connection on which nothing moves. Default: CONNECTION_TIMEOUT_MS. */
  readonly connectionTimeoutMs?: number;
  /** For a connection between two requests. Default: KEEP_ALIVE_MS. */
  readonly keepAliveMs?: number;
}

/** Fastify with our bounds on what it reads, without routes. `refuse` answers malformed requests. */
export function fastifyServer(
  options: FastifyLimits & { readonly tls: TlsIdentity | undefined },
  refuse: (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => void,
): FastifyInstance {
  const { tls, requestTimeoutMs = REQUEST_TIMEOUT_MS, connectionTimeoutMs = CONNECTION_TIMEOUT_MS } = options;
  const limits = {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: requestTimeoutMs,
    connectionsCheckingInterval: LATE_REQUESTS_EVERY_MS,
  };
  return fastify({
    logger: false,
    schemaController: { compilersFactory: NO_COMPILERS },
    ...(tls === undefined ? { http: limits } : { https: { ...limits, ...tlsOptions(tls) } }),
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: options.keepAliveMs ?? KEEP_ALIVE_MS,
    connectionTimeout: connectionTimeoutMs,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    exposeHeadRoutes: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: MAX_HEADER_BYTES },
    frameworkErrors: refuse,
    clientErrorHandler: refuseClient,
  });
}
