import fastify from 'fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import type { Logger } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import { StorageError } from '../../storage/index.js';
import { AddressLimiter } from '../limits/AddressLimiter.js';
import { ApiRequests } from '../limits/ApiRequests.js';
import type { ApiMetrics } from '../limits/ApiRequests.js';
import { ResponseWriter, JSON_TYPE } from './ResponseWriter.js';
import { allowOrigins, isAllowedOrigin } from './cors.js';
import { ApiError, isElsewhere, storageRefusal } from '../view/ApiError.js';
import { ResponseBuffer, RETRY_AFTER_SECONDS } from './ResponseBuffer.js';
import type { HttpRoute, HttpRoutes, WebSocketRoute } from './types.js';
import {
  listenError,
  refusalOf,
  refusalOfForwarded,
  refusedByRouter,
  refuseClient,
  warnWhenExposed,
} from './refusals.js';
import { Semaphore } from '../limits/Semaphore.js';
import type { Query } from '../view/queryParameters.js';
import { MAX_FORWARDED_BODY_BYTES } from './UpstreamExchange.js';
import type { RestForwarding } from './RestForwarding.js';
import { SlowClientGuard } from './SlowClientGuard.js';
import { beginStream } from './streamedResponse.js';
import { InFlightRequests } from '../limits/InFlightRequests.js';
import { addWebSocket, takeUpgrades } from './upgrades.js';

/** Request line and headers together, in bytes. */
const MAX_HEADER_BYTES = 16_384;
const MAX_CONNECTIONS = 512;
/** For a request to arrive whole. */
const REQUEST_TIMEOUT_MS = 15_000;
/** Between two looks for requests that are late. */
const LATE_REQUESTS_EVERY_MS = 1_000;
/** For a connection on which nothing moves. */
const CONNECTION_TIMEOUT_MS = 60_000;
/** For a connection between two requests. */
const KEEP_ALIVE_TIMEOUT_MS = 30_000;

/** Requests that are being answered, or wait until they can be. */
const MAX_REQUESTS = 1_024;
/** Answers as large as a block that are made at once. */
const MAX_BULK_ANSWERS = 4;

/** Fastify's own compilers take 40 ms to load, and no route has a schema that is to be compiled. */
const NO_COMPILERS = { buildValidator: refuseSchema, buildSerializer: refuseSchema };

function refuseSchema(): never {
  throw new Error('a route has a schema, and nothing compiles it');
}

export interface HttpServerOptions {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  /** Names the settings in messages: `api` for `--api-host` and `--api-port`. */
  readonly settings: 'api' | 'metrics';
  /** Requests per second that one address may send; 0, the default, = any number. */
  readonly ratePerSecondPerAddress?: number;
  /** Origins whose pages may read what is answered; `*` among them: all. Default: none. */
  readonly corsOrigins?: readonly string[];
  /** For a request to arrive whole. Default: REQUEST_TIMEOUT_MS. */
  readonly requestTimeoutMs?: number;
  /** For a connection on which nothing moves, while nobody is asked on its behalf. Default: CONNECTION_TIMEOUT_MS. */
  readonly connectionTimeoutMs?: number;
  /** Large answers that callers have not taken yet, together. Default: 256 MiB. */
  readonly maxHeldBytes?: number;
}

export interface HttpServerDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Is told of every error that is a bug, after the caller got a 500: the owner stops the process. */
  readonly fail: (error: unknown) => void;
  /** Left out: requests are not counted. */
  readonly metrics?: ApiMetrics | undefined;
}

/**
 * What our two HTTP servers have in common: GET and HEAD only, WebSocket where there is a route for it, bounds on everything a caller sends, error bodies in
 * Flow's form, a clear refusal when the address cannot be used, and an end in time (`UnderWay`).
 */
export class HttpServer {
  readonly #options: HttpServerOptions;
  readonly #dependencies: HttpServerDependencies & HttpRoutes;
  readonly #app: FastifyInstance;
  readonly #slowReaders: SlowClientGuard;
  readonly #held: ResponseBuffer;
  readonly #writer: ResponseWriter;
  readonly #bulk = new Semaphore({ places: MAX_BULK_ANSWERS });
  readonly #underWay: InFlightRequests;
  readonly #requests: ApiRequests;
  /** Routes whose answers go on until their callers leave, as the router names them. */
  readonly #lasting: ReadonlySet<string>;
  readonly #limiter: AddressLimiter | undefined;
  /** The last damage that was logged, so that a caller who repeats a request does not fill the log. */
  #damageLogged = '';
  #closing: Promise<void> | undefined;
  /** What a handler that was left behind runs into is no bug: its ground was taken away. */
  #closed = false;

  constructor(options: HttpServerOptions, dependencies: HttpServerDependencies & HttpRoutes) {
    this.#options = options;
    this.#dependencies = dependencies;
    const {
      ratePerSecondPerAddress = 0,
      requestTimeoutMs = REQUEST_TIMEOUT_MS,
      connectionTimeoutMs = CONNECTION_TIMEOUT_MS,
    } = options;
    this.#underWay = new InFlightRequests(dependencies);
    this.#requests = new ApiRequests({ interface: 'http' }, dependencies);
    this.#lasting = new Set(
      dependencies.routes.flatMap(({ path, isStream }) => (isStream === true ? [path] : [])),
    );
    this.#held = new ResponseBuffer(options);
    this.#writer = new ResponseWriter({ held: this.#held });
    this.#app = fastify({
      logger: false,
      schemaController: { compilersFactory: NO_COMPILERS },
      http: {
        maxHeaderSize: MAX_HEADER_BYTES,
        headersTimeout: requestTimeoutMs,
        connectionsCheckingInterval: LATE_REQUESTS_EVERY_MS,
      },
      requestTimeout: requestTimeoutMs,
      connectionTimeout: connectionTimeoutMs,
      keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
      forceCloseConnections: 'idle',
      return503OnClosing: false,
      exposeHeadRoutes: false,
      routerOptions: { ignoreTrailingSlash: true, maxParamLength: MAX_HEADER_BYTES },
      frameworkErrors: (error, request, reply) => {
        this.#count(request, reply);
        const { code, body } = this.#explain(error);
        reply.hijack();
        const headers = { 'content-type': JSON_TYPE, 'cache-control': 'no-store' };
        reply.raw.writeHead(code, headers).end(JSON.stringify(body));
      },
      clientErrorHandler: refuseClient,
    });
    this.#app.server.maxConnections = MAX_CONNECTIONS;
    this.#slowReaders = new SlowClientGuard({ server: this.#app.server }, { clock: dependencies.clock });
    if (ratePerSecondPerAddress > 0) {
      this.#limiter = new AddressLimiter({ ratePerSecond: ratePerSecondPerAddress }, dependencies);
    }
    // Both are plugins, which are loaded before what comes after them is added: their headers stand on every refusal too.
    const { forwarding, webSocket } = dependencies;
    const { corsOrigins: origins = [] } = options;
    const methods = forwarding === undefined ? ['GET', 'HEAD'] : ['GET', 'HEAD', 'POST'];
    if (origins.length > 0) allowOrigins(this.#app, { origins, methods });
    if (webSocket !== undefined) takeUpgrades(this.#app, webSocket);
    this.#app.after(() => this.#addHooks());
  }

  #addHooks(): void {
    const dependencies = this.#dependencies;
    const { forwarding, webSocket } = dependencies;
    this.#app.addHook('onRequest', (request, reply, next) => {
      this.#count(request, reply);
      next();
    });
    this.#app.addHook('onRequest', async (request, reply) => {
      const isForwarded = request.is404 && forwarding?.takes(request.method, request.url) === true;
      const refusal =
        (isForwarded
          ? refusalOfForwarded(request.url, request.headers, MAX_FORWARDED_BODY_BYTES)
          : refusalOf(request.method, request.url, request.headers)) ??
        this.#refusedOrigin(request) ??
        this.#held.refusalOf(request.raw.socket, reply.raw);
      if (refusal === undefined) return;
      // What the caller may still be sending is not read: the connection ends with the answer.
      reply.header('connection', 'close');
      if (refusal.code === 405) reply.header('allow', 'GET, HEAD');
      throw refusal;
    });
    if (this.#limiter !== undefined) this.#limitRate(this.#limiter);
    if (forwarding !== undefined) this.#forward(forwarding);
    this.#app.setErrorHandler((error, request, reply) => {
      if (forwarding?.takes(request.method, request.url) === true && isElsewhere(error)) {
        const own = error.reason === 'not_served' ? undefined : error;
        reply.hijack();
        forwarding.pass(request.raw, reply.raw, own);
        return reply;
      }
      const { code, body } = this.#explain(error);
      if (code === 503) reply.header('retry-after', RETRY_AFTER_SECONDS);
      reply.code(code).header('content-type', JSON_TYPE).header('cache-control', 'no-store');
      return reply.send(JSON.stringify(body));
    });
    this.#app.setNotFoundHandler((request) => {
      throw dependencies.unknownPath(request.url.split('?', 1)[0] ?? '');
    });
    if (webSocket !== undefined) this.#speakWebSocket(webSocket);
    for (const route of dependencies.routes) this.#route(route);
  }

  /** Counts a request under the pattern of its route, never by its path: paths have no end. */
  #count(request: FastifyRequest, { raw }: FastifyReply): void {
    const { forwarding } = this.#dependencies;
    const pattern = request.routeOptions.url?.replaceAll(/:(\w+)/g, '{$1}');
    const isForwarded = pattern === undefined && forwarding?.takes(request.method, request.url) === true;
    const route = pattern ?? (isForwarded ? 'forwarded' : 'other');
    const end = this.#requests.begin(route, { isLasting: this.#lasting.has(route) });
    raw.once('close', () => end(raw.headersSent ? String(raw.statusCode) : 'cancelled'));
  }

  #limitRate(limiter: AddressLimiter): void {
    const { ratePerSecondPerAddress: ratePerSecond } = this.#options;
    this.#app.addHook('onRequest', async (request, reply) => {
      // A connection is told so when it is there.
      if (request.ws) return;
      const waitSeconds = limiter.waitSeconds(request.socket.remoteAddress ?? '');
      if (waitSeconds === 0) return;
      reply.header('retry-after', waitSeconds);
      const message = `at most ${ratePerSecond} requests per second are answered to one address; ask again in ${waitSeconds} s`;
      throw new ApiError(429, 'rate_limited', message);
    });
  }

  /** A page may send a POST, and open a WebSocket, without asking: whether it may is looked at here. */
  #refusedOrigin({ method, ws, headers: { origin } }: FastifyRequest): ApiError | undefined {
    const { corsOrigins = [] } = this.#options;
    if ((method !== 'POST' && !ws) || isAllowedOrigin(origin, corsOrigins)) return undefined;
    return new ApiError(403, 'origin_refused', 'pages of this origin are not allowed here (api.corsOrigins)');
  }

  #speakWebSocket(route: WebSocketRoute): void {
    addWebSocket(this.#app, route, (socket: WebSocket, request: FastifyRequest) => {
      const address = request.socket.remoteAddress ?? '';
      try {
        route.accept(socket, request.raw, {
          explain: (error) => this.#known(error),
          waitSeconds: () => this.#limiter?.waitSeconds(address) ?? 0,
        });
      } catch (error) {
        this.#known(error);
        socket.terminate();
      }
    });
  }

  /** Before a body is read, and after everything that may refuse a request. */
  #forward(forwarding: RestForwarding): void {
    this.#app.addHook('onRequest', async (request, reply) => {
      if (!request.is404 || !forwarding.takes(request.method, request.url)) return;
      forwarding.pass(request.raw, reply.raw);
      reply.hijack();
    });
  }

  #route({ path, handle, isBulk = false }: HttpRoute): void {
    this.#app.route({
      // Node.js leaves the body of an answer to HEAD out by itself.
      method: ['GET', 'HEAD'],
      url: path.replaceAll(/\{(\w+)\}/g, ':$1'),
      handler: (request, reply) => {
        const answer = async () => {
          // Nobody is there any more: it hung up while it waited.
          if (request.raw.socket.destroyed) return undefined;
          const given = await handle({
            params: request.params as Readonly<Record<string, string>>,
            query: request.query as Query,
            headers: request.headers,
          });
          if ('stream' in given) {
            beginStream(given, request, reply, (reason) => this.#explain(reason).body);
            return undefined;
          }
          return this.#writer.write(given, request, reply);
        };
        if (this.#underWay.count >= MAX_REQUESTS) {
          throw new ApiError(
            503,
            'busy',
            `at most ${MAX_REQUESTS} requests may be under way at once; ask again`,
          );
        }
        return this.#underWay.run(isBulk ? () => this.#bulk.run(answer) : answer);
      },
    });
  }

  /** Listens. Expected errors: OperatorError (`configuration`) when the address cannot be used. */
  async start(): Promise<void> {
    const { host, port, settings } = this.#options;
    try {
      await this.#app.listen({ host, port });
    } catch (error) {
      throw listenError(error, this.#options);
    }
    this.#slowReaders.start();
    warnWhenExposed(this.#dependencies.logger, settings, this.address());
  }

  /** Where it listens, the port resolved. Only between `start()` and `close()`. */
  address(): { readonly host: string; readonly port: number } {
    const address = this.#app.server.address();
    if (address === null || typeof address === 'string') throw new Error('the server does not listen');
    return { host: this.#options.host, port: address.port };
  }

  /**
   * Stops listening; idle connections get nothing, requests under way CLOSE_GRACE_MS (of `UnderWay`). Their handlers are
   * waited for as long, also where the caller has hung up: what they read from may be closed next. Idempotent.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#slowReaders.close();
    try {
      await this.#underWay.end({
        stop: () => this.#app.close(),
        cut: () => {
          this.#dependencies.webSocket?.cut();
          this.#app.server.closeAllConnections();
        },
      });
    } finally {
      this.#dependencies.forwarding?.close();
      this.#closed = true;
    }
  }

  /** The answer to an error, whoever threw it. */
  #explain(error: unknown): { readonly code: number; readonly body: unknown } {
    const known = this.#known(error);
    return { code: known.code, body: known.body() };
  }

  #known(error: unknown): ApiError {
    if (error instanceof ApiError) return error;
    if (error instanceof StorageError) {
      if (this.#damageLogged !== error.message) {
        this.#damageLogged = error.message;
        this.#dependencies.logger.error({ kind: error.kind, error }, 'a read failed');
      }
      return storageRefusal(error);
    }
    const status = error instanceof Error && 'statusCode' in error ? error.statusCode : undefined;
    if (error instanceof Error && typeof status === 'number' && status >= 400 && status < 500) {
      return refusedByRouter(error, status);
    }
    if (!this.#closed) this.#dependencies.fail(error);
    return new ApiError(500, 'internal', 'internal server error');
  }
}
