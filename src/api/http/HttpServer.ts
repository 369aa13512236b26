import fastify from 'fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import { places } from '../../runtime/index.js';
import { isKnownClient, tlsOptions, type Credentials } from '../guard/TokenGuard.js';
import { ListeningServer } from '../server/ListeningServer.js';
import type { ServerDependencies, ServerLimits, ServerOptions } from '../server/ListeningServer.js';
import { ApiError, busy, isElsewhere, stopping } from '../view/ApiError.js';
import type { Query } from '../view/queryParameters.js';
import { allowOrigins, isAllowedOrigin } from './cors.js';
import type { RestForwarding } from './restForwarding.js';
import { httpConnections } from './httpConnections.js';
import { refusalOf, refuseClient, refusedByRouter } from './refusals.js';
import { beginStream, responseWriter } from './responses.js';
import { closeCodes, costOf, JSON_TYPE, type HttpRoute, type WebSocketRoute } from './types.js';
import { takeUpgrades } from './upgrades.js';

/** Concurrent requests, including those that wait. */
const MAX_REQUESTS = 1_024;
/** Responses as large as a block that are built at once. */
const MAX_BULK_RESPONSES = 4;
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

/** What the close frame of a WebSocket has room for beside its code (RFC 6455, section 5.5). */
const MAX_REASON_BYTES = 123;

/** Fastify's own compilers take 40 ms to load, and no route has a schema to compile. */
const NO_COMPILERS = { buildValidator: refuseSchema, buildSerializer: refuseSchema };

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route as we describe it; absent where a plugin added it. */
    readonly served?: HttpRoute;
  }
}

export interface HttpServerOptions extends ServerOptions {
  /** Origins whose pages may read responses; `*` among them: all. Default: none. */
  readonly corsOrigins?: readonly string[];
  /** Default: REQUEST_TIMEOUT_MS. */
  readonly requestTimeoutMs?: number;
  /** Default: CONNECTION_TIMEOUT_MS. */
  readonly connectionTimeoutMs?: number;
  /** Default: KEEP_ALIVE_MS. */
  readonly keepAliveMs?: number;
}

interface HttpRoutes {
  readonly routes: readonly HttpRoute[];
  /** The refusal of a path without a route. */
  readonly unknownPath: (path: string) => ApiError;
  /** Takes requests without a route, and those that a handler cannot serve. */
  readonly forwarding?: RestForwarding | undefined;
  /** Absent: no WebSocket. */
  readonly webSocket?: WebSocketRoute | undefined;
}

/**
 * HTTP, GET and HEAD only, and WebSocket if there is a route for it, with bounds on everything a caller sends and does not
 * take, and error bodies in Flow's form.
 */
export class HttpServer extends ListeningServer {
  override readonly accepted: ReturnType<typeof httpConnections>;
  readonly #served: HttpRoutes;
  readonly #app: FastifyInstance;
  readonly #write = responseWriter(this.hold);
  readonly #bulk = places(MAX_BULK_RESPONSES);
  /** Those whose handshake has succeeded. */
  readonly #webSockets = new WeakSet<FastifyRequest>();
  #corsOrigins: readonly string[];

  constructor(
    name: 'api' | 'metrics',
    options: HttpServerOptions,
    dependencies: ServerDependencies & HttpRoutes,
  ) {
    super(name, options, dependencies);
    const { forwarding, routes, unknownPath, webSocket } = dependencies;
    this.#served = dependencies;
    this.#corsOrigins = options.corsOrigins ?? [];
    const app = this.#fastify(options);
    this.#app = app;
    this.accepted = httpConnections({ ...options, server: app.server, name }, dependencies);
    // Also for the route that the plugin adds.
    app.setErrorHandler((error, request, reply) => {
      // No node knows `finality=proven`.
      const isLacking = isElsewhere(error) && (request.query as Query)['finality'] !== 'proven';
      const isForwarded = isLacking && this.#isForwardable(request) && this.guard.mayForward(request.raw);
      return isForwarded ? this.#forward(request, reply, error) : this.#refuse(error, reply);
    });
    // Plugins load before what is added after them: their headers are on every refusal too.
    if (options.corsOrigins !== undefined) {
      const methods = forwarding === undefined ? ['GET', 'HEAD'] : ['GET', 'HEAD', 'POST'];
      allowOrigins(app, () => this.#corsOrigins, methods);
    }
    if (webSocket !== undefined) takeUpgrades(app, webSocket, this.accepted.responsesOn);
    app.after(() => {
      app.addHook('onRequest', async (request, reply) => {
        this.#count(request, reply);
        const isForwarded = request.is404 && this.#isForwardable(request);
        this.#admit(request, reply, isForwarded);
        // Before the body is read.
        return isForwarded ? this.#forward(request, reply) : undefined;
      });
      app.setNotFoundHandler((request) => {
        throw unknownPath(request.url.split('?', 1)[0] ?? '');
      });
      if (webSocket !== undefined) this.#addWebSocket(webSocket);
      for (const route of routes) this.#addRoute(route);
    });
  }

  override setLimits(limits: Partial<ServerLimits & Pick<HttpServerOptions, 'corsOrigins'>>): void {
    this.#corsOrigins = limits.corsOrigins ?? this.#corsOrigins;
    super.setLimits(limits);
  }

  override listen(at: Pick<ServerOptions, 'host' | 'port'>): Promise<unknown> {
    return this.#app.listen(at);
  }

  override async stop(): Promise<void> {
    await this.#app.close();
    this.#served.forwarding?.close();
  }

  override explain(error: unknown): ApiError {
    return refusedByRouter(error) ?? super.explain(error);
  }

  /** Fastify with our bounds on what it reads, without routes. */
  #fastify(options: HttpServerOptions): FastifyInstance {
    const tls = options.secrets?.tls;
    const requestTimeout = options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
    // Access nodes redirect clients whose base address ends with a slash.
    const slashes = { ignoreDuplicateSlashes: true, ignoreTrailingSlash: true };
    const limits = {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: requestTimeout,
      connectionsCheckingInterval: LATE_REQUESTS_EVERY_MS,
      handshakeTimeout: requestTimeout,
    };
    return fastify({
      logger: false,
      schemaController: { compilersFactory: NO_COMPILERS },
      ...(tls === undefined ? { http: limits } : { https: { ...tlsOptions(tls), ...limits } }),
      requestTimeout,
      keepAliveTimeout: options.keepAliveMs ?? KEEP_ALIVE_MS,
      connectionTimeout: options.connectionTimeoutMs ?? CONNECTION_TIMEOUT_MS,
      forceCloseConnections: 'idle',
      return503OnClosing: false,
      exposeHeadRoutes: false,
      routerOptions: { ...slashes, maxParamLength: MAX_HEADER_BYTES },
      frameworkErrors: (error, request, reply) => {
        this.#count(request, reply);
        this.#refuse(error, reply);
      },
      clientErrorHandler: (error, socket) => refuseClient(error, socket, this.accepted.isAnswering(socket)),
    });
  }

  /**
   * What a request must pass before it is handled: its form, its origin, the rate of its address, its token. Expected errors:
   * ApiError.
   */
  #admit(request: FastifyRequest, reply: FastifyReply, isForwarded: boolean): void {
    const refusal =
      refusalOf(request, isForwarded) ??
      this.#originRefused(request) ??
      this.accepted.refusalOf(request.raw.socket, reply.raw);
    if (refusal !== undefined) {
      // The rest of the request is not read: the connection ends with the response.
      reply.header('connection', 'close');
      throw refusal;
    }
    // A WebSocket is refused once it is open.
    if (request.ws) return;
    const { served } = request.routeOptions.config;
    const tooSoon = served?.kind === 'file' ? undefined : this.limiter.refusal(request.socket.remoteAddress);
    if (tooSoon !== undefined) throw tooSoon;
    const cost = isForwarded ? 'expensive' : served === undefined ? 'cheap' : costOf(served);
    const unauthorized = this.guard.check(request.raw, cost, () => takeCredentials(request));
    if (unauthorized === undefined) return;
    if (isForwarded) reply.header('connection', 'close');
    throw unauthorized;
  }

  /** Browsers send a POST, and open a WebSocket, without a preflight. */
  #originRefused({ headers, method, ws }: FastifyRequest): ApiError | undefined {
    if ((method !== 'POST' && !ws) || isAllowedOrigin(headers.origin, this.#corsOrigins)) return undefined;
    return new ApiError(403, 'origin_refused', 'pages of this origin are not allowed here (api.corsOrigins)');
  }

  #isForwardable({ method, url }: FastifyRequest): boolean {
    return this.#served.forwarding?.takes(method, url) === true;
  }

  /** Forwards a request that the index refused with `own` or does not serve. */
  async #forward(request: FastifyRequest, reply: FastifyReply, own?: ApiError): Promise<void> {
    try {
      await this.#served.forwarding?.pass({
        request: request.raw,
        response: reply.raw,
        own: own?.reason === 'not_served' ? undefined : own,
        isPrivate: this.guard.isOn,
      });
      reply.hijack();
    } catch (error) {
      // The rest of an unfinished request is not read: its connection ends with the response.
      if (!request.raw.complete) reply.header('connection', 'close');
      this.#refuse(error, reply);
    }
  }

  #refuse(error: unknown, reply: FastifyReply): FastifyReply {
    const refusal = this.explain(error);
    const { code, retryAfterSeconds } = refusal;
    if (retryAfterSeconds !== undefined) reply.header('retry-after', retryAfterSeconds);
    if (code === 401) reply.header('www-authenticate', 'Bearer');
    if (code === 405) reply.header('allow', 'GET, HEAD');
    reply.code(code).headers({ 'content-type': JSON_TYPE, 'cache-control': 'no-store' });
    return reply.send(JSON.stringify(refusal.body()));
  }

  #addRoute(route: HttpRoute): void {
    const { kind, path } = route;
    this.#app.route({
      // Node.js omits the body of a response to HEAD.
      method: ['GET', 'HEAD'],
      url: path.replaceAll(/\{(\w+)\}/g, ':$1'),
      config: { served: route },
      handler: (request, reply) => {
        if (this.inProgress.size >= MAX_REQUESTS)
          throw busy(`at most ${MAX_REQUESTS} requests may be in progress at once; retry`);
        const serve = (): Promise<unknown> => this.#serve(route, request, reply);
        return this.run(kind === 'bulk' ? () => this.#bulk(serve) : serve);
      },
    });
  }

  async #serve(route: HttpRoute, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    // The caller hung up or half-closed while it waited: both look the same.
    if (request.raw.socket.readableEnded) request.raw.socket.destroy();
    if (request.raw.socket.destroyed) return undefined;
    const response = await route.handle({
      params: request.params as Readonly<Record<string, string>>,
      query: request.query as Query,
      headers: request.headers,
      root: rootFrom(request.url),
    });
    if (!('stream' in response))
      return this.#write(response, request, reply, this.guard.covers(costOf(route)));
    const tooMany = request.method === 'HEAD' ? undefined : this.accepted.hold(request.socket);
    if (tooMany !== undefined) throw tooMany;
    beginStream(response, request, reply, (reason) => this.explain(reason));
    return undefined;
  }

  #addWebSocket({ accept, maxConnections, path }: WebSocketRoute): void {
    let open = 0;
    const refusalFor = (request: FastifyRequest): ApiError | undefined => {
      // First of all, so that our tokens are never forwarded.
      const unauthorized = this.guard.check(request.raw, 'expensive', () => takeCredentials(request));
      if (this.isClosing) return stopping();
      if (open >= maxConnections) return busy(`at most ${maxConnections} connections at once`);
      const { socket } = request;
      return this.accepted.hold(socket) ?? this.limiter.refusal(socket.remoteAddress) ?? unauthorized;
    };
    const wsHandler = (socket: WebSocket, request: FastifyRequest): void => {
      this.#webSockets.add(request);
      try {
        const refusal = refusalFor(request);
        if (refusal !== undefined) {
          turnAway(socket, refusal);
          return;
        }
        open += 1;
        socket.once('close', () => (open -= 1));
        accept(socket, request.raw, this);
      } catch (error) {
        this.explain(error);
        socket.terminate();
      }
    };
    this.#app.route({
      method: 'GET',
      url: path,
      handler: () => {
        const message = `${path} speaks WebSocket: open it with a client that does (ws://…)`;
        throw new ApiError(400, 'bad_request', message);
      },
      wsHandler,
    });
  }

  /** Counts a request by the pattern of its route, never by its path: paths are unbounded. */
  #count(request: FastifyRequest, { raw }: FastifyReply): void {
    const { config, url } = request.routeOptions;
    const route = config.served?.path ?? url ?? (this.#isForwardable(request) ? 'forwarded' : 'other');
    const end = this.countRequest(route, { isLasting: request.ws || config.served?.kind === 'stream' });
    raw.once('close', () => {
      // A handshake is answered outside this response; a faulty one gets 400.
      const handshake = request.ws && (this.#webSockets.has(request) ? '101' : '400');
      end(raw.headersSent ? String(raw.statusCode) : handshake || 'cancelled');
    });
  }
}

/**
 * The connection is accepted and then closed, so that a client handles it like any other close: FCL in Node.js does not
 * listen for handshake errors, and one would end its process.
 */
function turnAway(socket: WebSocket, { message, reason }: ApiError): void {
  const code = reason === 'unauthorized' ? closeCodes.unauthorized : closeCodes.tryAgainLater;
  socket.close(code, Buffer.from(message).subarray(0, MAX_REASON_BYTES));
}

/** A reference to the root of the server from the page at this URL. */
function rootFrom(url: string): string {
  const [path = ''] = url.split('?', 1);
  // `*`, and the path of an absolute URL, have no slash or others.
  return '../'.repeat(Math.max(0, path.split('/').length - 2)) || './';
}

function refuseSchema(): never {
  throw new Error('a route has a schema, and nothing compiles it');
}

/** Pages cannot give a WebSocket a header: they name the token as the protocol after `bearer`. */
function takeCredentials({ headers, raw, ws }: FastifyRequest): Credentials {
  const [scheme, token] = (headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
  const isProtocol = ws && scheme === 'bearer' && token !== undefined;
  const authorization = headers.authorization ?? (isProtocol ? `Bearer ${token}` : undefined);
  delete raw.headers.authorization;
  return { authorization, isKnownClient: isKnownClient(raw.socket) };
}
