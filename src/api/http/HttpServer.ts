import { TLSSocket } from 'node:tls';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import type { Credentials } from '../guard/TokenGuard.js';
import { places } from '../limits/places.js';
import { ListeningServer } from '../server/ListeningServer.js';
import type { ServerDependencies, ServerLimits, ServerOptions } from '../server/ListeningServer.js';
import { ApiError, isElsewhere } from '../view/ApiError.js';
import type { Query } from '../view/queryParameters.js';
import { allowOrigins, isAllowedOrigin } from './cors.js';
import { fastifyServer } from './fastifyServer.js';
import type { FastifyLimits } from './fastifyServer.js';
import type { RestForwarding } from './forwarding/RestForwarding.js';
import { HttpConnections } from './HttpConnections.js';
import { linksBelow, prefixOf, rootFrom } from './prefix.js';
import { refusalOf, refusedByRouter, RETRY_AFTER_SECONDS } from './refusals.js';
import { beginStream, entityTag, ResponseWriter } from './ResponseWriter.js';
import { costOf, JSON_TYPE } from './types.js';
import type { HttpResponse, HttpRoute, StreamingResponse, WebSocketRoute } from './types.js';
import { takeUpgrades } from './upgrades.js';

/** Concurrent requests, including those that wait. */
const MAX_REQUESTS = 1_024;
/** Responses as large as a block that are built at once. */
const MAX_BULK_RESPONSES = 4;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route as we describe it; absent where a plugin added it. */
    readonly served?: HttpRoute;
  }
}

export interface HttpServerOptions extends ServerOptions, FastifyLimits {
  /** Origins whose pages may read responses; `*` among them: all. Default: none. */
  readonly corsOrigins?: readonly string[];
}

/** What a server serves. */
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
  override readonly accepted: HttpConnections;
  readonly #served: HttpRoutes;
  readonly #app: FastifyInstance;
  readonly #writer: ResponseWriter;
  readonly #bulk = places(MAX_BULK_RESPONSES);
  #corsOrigins: readonly string[];

  constructor(
    name: 'api' | 'metrics',
    options: HttpServerOptions,
    dependencies: ServerDependencies & HttpRoutes,
  ) {
    super(name, options, dependencies);
    const { maxConnections, secrets } = options;
    const { forwarding, webSocket } = dependencies;
    this.#served = dependencies;
    this.#writer = new ResponseWriter(this.held);
    this.#corsOrigins = options.corsOrigins ?? [];
    this.#app = fastifyServer({ ...options, tls: secrets?.tls }, (error, request, reply) => {
      this.#count(request, reply);
      this.#refuse(error, reply);
    });
    const { server } = this.#app;
    this.accepted = new HttpConnections({ server, name, maxConnections }, dependencies);
    // Also for the route that the plugin adds.
    this.#app.setErrorHandler((error, request, reply) => {
      const isForwarded =
        isElsewhere(error) && this.#isForwardable(request) && this.guard.mayForward(request.raw);
      return isForwarded ? this.#forward(request, reply, error) : this.#refuse(error, reply);
    });
    // Plugins load before what is added after them: their headers are on every refusal too.
    const methods = forwarding === undefined ? ['GET', 'HEAD'] : ['GET', 'HEAD', 'POST'];
    if (options.corsOrigins !== undefined)
      allowOrigins(this.#app, { origins: () => this.#corsOrigins, methods });
    if (webSocket !== undefined) takeUpgrades(this.#app, webSocket);
    this.#app.after(() => this.#addRoutes());
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

  override cut(): void {
    this.#served.webSocket?.cut();
  }

  override explain(error: unknown): ApiError {
    return refusedByRouter(error) ?? super.explain(error);
  }

  #addRoutes(): void {
    const { routes, unknownPath, webSocket } = this.#served;
    this.#app.addHook('onRequest', async (request, reply) => {
      this.#count(request, reply);
      const isForwarded = request.is404 && this.#isForwardable(request);
      this.#admit(request, reply, isForwarded);
      // Before the body is read.
      return isForwarded ? this.#forward(request, reply) : undefined;
    });
    this.#app.setNotFoundHandler((request) => {
      throw unknownPath(request.url.split('?', 1)[0] ?? '');
    });
    if (webSocket !== undefined) this.#addWebSocket(webSocket);
    for (const route of routes) this.#addRoute(route);
  }

  /**
   * What a request must pass before it is handled: its form, its origin, the rate of its address, its token. Expected errors:
   * ApiError; its headers are in the reply.
   */
  #admit(request: FastifyRequest, reply: FastifyReply, isForwarded: boolean): void {
    const refusal =
      refusalOf(request, isForwarded) ??
      this.#originRefused(request) ??
      this.accepted.refusalOf(request.raw.socket, reply.raw);
    if (refusal !== undefined) {
      // The rest of the request is not read: the connection ends with the response.
      reply.header('connection', 'close');
      if (refusal.code === 405) reply.header('allow', 'GET, HEAD');
      throw refusal;
    }
    // A WebSocket is refused once it is open.
    if (request.ws) return;
    const { served } = request.routeOptions.config;
    const waitSeconds = served?.isFile === true ? 0 : this.limiter.waitSeconds(request.socket.remoteAddress);
    if (waitSeconds > 0) {
      reply.header('retry-after', waitSeconds);
      throw this.limiter.refusal(waitSeconds);
    }
    const cost = isForwarded ? 'expensive' : served === undefined ? 'cheap' : costOf(served);
    const unauthorized = this.guard.check(request.raw, cost, () => takeCredentials(request));
    if (unauthorized === undefined) return;
    if (isForwarded) reply.header('connection', 'close');
    throw unauthorized;
  }

  /** Browsers send a POST, and open a WebSocket, without a preflight. */
  #originRefused({ headers, method, ws }: FastifyRequest): ApiError | undefined {
    if ((method !== 'POST' && !ws) || isAllowedOrigin(headers.origin, this.#corsOrigins)) return undefined;
    const message = 'pages of this origin are not allowed here (api.corsOrigins)';
    return new ApiError(403, 'origin_refused', message);
  }

  #isForwardable({ method, url }: FastifyRequest): boolean {
    return this.#served.forwarding?.takes(method, url) === true;
  }

  /** Has a node serve a request, which the index has refused with `own`, or does not serve. */
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
    if (refusal.code === 503) reply.header('retry-after', RETRY_AFTER_SECONDS);
    if (refusal.code === 401) reply.header('www-authenticate', 'Bearer');
    reply.code(refusal.code).headers({ 'content-type': JSON_TYPE, 'cache-control': 'no-store' });
    return reply.send(JSON.stringify(refusal.body()));
  }

  #addRoute(route: HttpRoute): void {
    const { path, isBulk = false } = route;
    this.#app.route({
      // Node.js omits the body of a response to HEAD.
      method: ['GET', 'HEAD'],
      url: path.replaceAll(/\{(\w+)\}/g, ':$1'),
      config: { served: route },
      handler: (request, reply) => {
        if (this.inProgress >= MAX_REQUESTS) {
          const message = `at most ${MAX_REQUESTS} requests may be in progress at once; retry`;
          throw new ApiError(503, 'busy', message);
        }
        const serve = (): Promise<unknown> => this.#serve(route, request, reply);
        return this.run(isBulk ? () => this.#bulk(serve) : serve);
      },
    });
  }

  async #serve(route: HttpRoute, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    // The caller hung up while it waited.
    if (request.raw.socket.destroyed) return undefined;
    const prefix = prefixOf(request.headers);
    const handled = await route.handle({
      params: request.params as Readonly<Record<string, string>>,
      query: request.query as Query,
      headers: request.headers,
      root: rootFrom(request.url, prefix),
      remoteAddress: request.raw.socket.remoteAddress,
    });
    const response = below(prefix, handled);
    if (!('stream' in response)) {
      const isPrivate = this.guard.covers(costOf(route));
      return this.#writer.write(response, request, reply, { isPrivate });
    }
    const busy = request.method === 'HEAD' ? undefined : this.accepted.hold(request.socket);
    if (busy !== undefined) throw busy;
    beginStream(response, request, reply, (reason) => this.explain(reason));
    return undefined;
  }

  #addWebSocket(route: WebSocketRoute): void {
    const { path } = route;
    const accept = (socket: WebSocket, request: FastifyRequest): void => {
      const address = request.socket.remoteAddress;
      try {
        route.accept(socket, request.raw, {
          unauthorized: this.guard.check(request.raw, 'expensive', () => takeCredentials(request)),
          busy: this.accepted.hold(request.socket)?.message,
          explain: (error) => this.explain(error),
          waitSeconds: () => this.limiter.waitSeconds(address),
        });
      } catch (error) {
        this.explain(error);
        socket.terminate();
      }
    };
    this.#app.route({
      method: 'GET',
      url: path,
      onRequest: (request, _reply, done) => {
        const message = `${path} speaks WebSocket: open it with a client that does (ws://…)`;
        done(request.ws ? undefined : new ApiError(400, 'bad_request', message));
      },
      handler: () => undefined,
      wsHandler: accept,
    });
  }

  /** Counts a request by the pattern of its route, never by its path: paths are unbounded. */
  #count(request: FastifyRequest, { raw }: FastifyReply): void {
    const { config, url } = request.routeOptions;
    const route = config.served?.path ?? url ?? (this.#isForwardable(request) ? 'forwarded' : 'other');
    const end = this.countRequest(route, { isLasting: config.served?.isStream === true });
    raw.once('close', () => end(raw.headersSent ? String(raw.statusCode) : 'cancelled'));
  }
}

/** Pages cannot give a WebSocket a header: they name the token as the protocol after `bearer`. */
function takeCredentials({ headers, raw, ws }: FastifyRequest): Credentials {
  const [scheme, token] = (headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
  const isProtocol = ws && scheme === 'bearer' && token !== undefined;
  const authorization = headers.authorization ?? (isProtocol ? `Bearer ${token}` : undefined);
  delete raw.headers.authorization;
  return { authorization, isKnownClient: raw.socket instanceof TLSSocket && raw.socket.authorized };
}

/** The response for callers who reach this server below a prefix: its links have it too. */
function below(prefix: string, response: HttpResponse | StreamingResponse): HttpResponse | StreamingResponse {
  if (prefix === '' || !('build' in response)) return response;
  const { build, headers, validity } = response;
  return {
    ...response,
    build: () => linksBelow(prefix, build()),
    headers: { ...headers, vary: 'x-forwarded-prefix' },
    ...(validity === undefined ? {} : { validity: { ...validity, tag: entityTag(validity.tag, prefix) } }),
  };
}
