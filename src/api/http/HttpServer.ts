import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ConnectionMetrics } from '../../observability/index.js';
import type { ApiSecrets } from '../guard/tls.js';
import type { GuardOptions } from '../guard/TokenGuard.js';
import { AddressLimiter } from '../limits/AddressLimiter.js';
import { ApiRequests } from '../limits/ApiRequests.js';
import type { ApiMetrics } from '../limits/ApiRequests.js';
import { HeldBytes } from '../limits/HeldBytes.js';
import { Semaphore } from '../limits/Semaphore.js';
import { ServerLifecycle } from '../server/ServerLifecycle.js';
import type { ServerLifecycleDependencies } from '../server/ServerLifecycle.js';
import { ApiError, isElsewhere } from '../view/ApiError.js';
import type { Query } from '../view/queryParameters.js';
import { allowOrigins } from './admission/cors.js';
import { HttpAdmission, patternOf } from './admission/HttpAdmission.js';
import { HttpConnections } from './admission/HttpConnections.js';
import { fastifyServer } from './fastifyServer.js';
import { refusedByRouter, RETRY_AFTER_SECONDS } from './refusals.js';
import { ResponseWriter } from './responses/ResponseWriter.js';
import { beginStream } from './responses/ResponseWriter.js';
import { entityTag } from './responses/cacheHeaders.js';
import { linksBelow, prefixOf, rootFrom } from './prefix.js';
import { costOf, JSON_TYPE } from './types.js';
import type { HttpResponse, HttpRoute, HttpRoutes, StreamingResponse, WebSocketRoute } from './types.js';
import { addWebSocket, takeUpgrades } from './upgrades.js';

/** Concurrent requests, including those that wait. */
const MAX_REQUESTS = 1_024;
/** Responses as large as a block that are built at once. */
const MAX_BULK_RESPONSES = 4;

export interface HttpServerOptions extends GuardOptions {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  /** Requests per second per address; 0, the default, = unlimited. */
  readonly ratePerSecondPerAddress?: number;
  /** Default: 512. Further ones are closed. */
  readonly maxConnections?: number;
  /** Origins whose pages may read responses; `*` among them: all. Default: none. */
  readonly corsOrigins?: readonly string[];
  /** For a request to arrive completely. Default: 15 s. */
  readonly requestTimeoutMs?: number;
  /** For a connection on which nothing moves. Default: 60 s. */
  readonly connectionTimeoutMs?: number;
  /** For a connection between two requests. Default: 75 s. */
  readonly keepAliveMs?: number;
  /** Total of large responses that callers have not taken yet. Default: 256 MiB. */
  readonly maxHeldBytes?: number;
}

/** See `HttpServerOptions`. */
export type HttpLimits = Required<
  Pick<HttpServerOptions, 'corsOrigins' | 'maxConnections' | 'ratePerSecondPerAddress'>
>;

export interface HttpServerDependencies extends ServerLifecycleDependencies {
  /** Absent: nothing is counted. */
  readonly metrics?: (ConnectionMetrics & Partial<ApiMetrics>) | undefined;
}

/**
 * HTTP, GET and HEAD only, and WebSocket if there is a route for it, with bounds on everything a caller sends and does not
 * take, and error bodies in Flow's form.
 */
export class HttpServer {
  #corsOrigins: readonly string[];
  readonly #served: HttpRoutes;
  readonly #app: FastifyInstance;
  readonly #lifecycle: ServerLifecycle;
  readonly #connections: HttpConnections;
  readonly #writer: ResponseWriter;
  readonly #bulk = new Semaphore({ places: MAX_BULK_RESPONSES });
  readonly #requests: ApiRequests;
  readonly #limiter: AddressLimiter;
  /** Routes whose responses last until their callers leave. */
  readonly #lasting: ReadonlySet<string>;
  readonly #admission: HttpAdmission;

  /** `settings` names the flags in messages: `--api-host`, `--api-port`. */
  constructor(
    options: HttpServerOptions & { readonly settings: 'api' | 'metrics' },
    dependencies: HttpServerDependencies & HttpRoutes,
  ) {
    const { host, port, settings, secrets, ratePerSecondPerAddress: ratePerSecond = 0 } = options;
    const { forwarding, webSocket, routes } = dependencies;
    this.#corsOrigins = options.corsOrigins ?? [];
    this.#served = dependencies;
    this.#requests = new ApiRequests({ interface: 'http' }, dependencies);
    this.#lasting = new Set(routes.flatMap(({ path, isStream }) => (isStream === true ? [path] : [])));
    this.#writer = new ResponseWriter({ held: new HeldBytes(options) });
    this.#limiter = new AddressLimiter({ ratePerSecond }, dependencies);
    const app = fastifyServer({ ...options, tls: secrets?.tls }, (error, request, reply) => {
      this.#count(request, reply);
      const refusal = this.#explain(error);
      reply.hijack();
      const headers = { 'content-type': JSON_TYPE, 'cache-control': 'no-store' };
      reply.raw.writeHead(refusal.code, headers).end(JSON.stringify(refusal.body()));
    });
    this.#app = app;
    const { maxConnections } = options;
    this.#connections = new HttpConnections(
      { server: app.server, name: settings, maxConnections },
      dependencies,
    );
    const [connections, limiter, corsOrigins] = [this.#connections, this.#limiter, () => this.#corsOrigins];
    this.#admission = new HttpAdmission(options, { connections, corsOrigins, limiter, forwarding, routes });
    const hooks = {
      socket: app.server,
      connections,
      listen: async () => {
        await app.listen({ host, port });
      },
      stop: async () => {
        await app.close();
        forwarding?.close();
      },
      cut: () => webSocket?.cut(),
    };
    const [hostFlag, portFlag] = [`--${settings}-host`, `--${settings}-port`];
    this.#lifecycle = new ServerLifecycle(
      { host, port, name: settings, hostFlag, portFlag, secrets },
      { ...dependencies, hooks },
    );
    // Also for the route that the plugin adds.
    this.#explainErrors();
    // Plugins load before what is added after them: their headers are on every refusal too.
    const methods = forwarding === undefined ? ['GET', 'HEAD'] : ['GET', 'HEAD', 'POST'];
    if (options.corsOrigins !== undefined) allowOrigins(app, { origins: corsOrigins, methods });
    if (webSocket !== undefined) takeUpgrades(app, webSocket);
    app.after(() => this.#addRoutes());
  }

  /** Listens. Expected errors: OperatorError (`configuration`) when the address cannot be used. */
  start(): Promise<void> {
    return this.#lifecycle.start();
  }

  /** The listening address, with the port resolved. Only between `start()` and `close()`. */
  address(): { readonly host: string; readonly port: number } {
    return this.#lifecycle.address();
  }

  /** Open connections. */
  get connections(): number {
    return this.#connections.size;
  }

  /** Changes limits while it runs. Connections beyond theirs stay if they have a request. */
  setLimits({ corsOrigins, maxConnections, ratePerSecondPerAddress }: Partial<HttpLimits>): void {
    this.#corsOrigins = corsOrigins ?? this.#corsOrigins;
    if (maxConnections !== undefined) this.#connections.setLimit(maxConnections);
    if (ratePerSecondPerAddress !== undefined) this.#limiter.setRate(ratePerSecondPerAddress);
  }

  /** Replaces tokens and certificate; a plain-text port stays plain text. */
  secure(secrets: ApiSecrets): void {
    this.#admission.secure(secrets);
    this.#lifecycle.renew(secrets);
  }

  /** Like `ServerLifecycle.close`. */
  close(): Promise<void> {
    return this.#lifecycle.close();
  }

  #explainErrors(): void {
    const { forwarding } = this.#served;
    this.#app.setErrorHandler((error, request, reply) => {
      if (
        this.#admission.isForwardable(request) &&
        isElsewhere(error) &&
        this.#admission.mayForward(request)
      ) {
        reply.hijack();
        const own = error.reason === 'not_served' ? undefined : error;
        forwarding?.pass(request.raw, reply.raw, { own, isPrivate: this.#admission.isGuarded });
        return reply;
      }
      const refusal = this.#explain(error);
      if (refusal.code === 503) reply.header('retry-after', RETRY_AFTER_SECONDS);
      if (refusal.code === 401) reply.header('www-authenticate', 'Bearer');
      reply.code(refusal.code).headers({ 'content-type': JSON_TYPE, 'cache-control': 'no-store' });
      return reply.send(JSON.stringify(refusal.body()));
    });
  }

  #addRoutes(): void {
    const { forwarding, routes, unknownPath, webSocket } = this.#served;
    this.#app.addHook('onRequest', async (request, reply) => {
      this.#count(request, reply);
      if (!this.#admission.admit(request, reply)) return;
      // Before the body is read.
      forwarding?.pass(request.raw, reply.raw, { isPrivate: this.#admission.isGuarded });
      reply.hijack();
    });
    this.#app.setNotFoundHandler((request) => {
      throw unknownPath(request.url.split('?', 1)[0] ?? '');
    });
    if (webSocket !== undefined) this.#addWebSocket(webSocket);
    for (const route of routes) this.#addRoute(route);
  }

  #addRoute(route: HttpRoute): void {
    const { path, handle, isBulk = false } = route;
    this.#app.route({
      // Node.js omits the body of a response to HEAD.
      method: ['GET', 'HEAD'],
      url: path.replaceAll(/\{(\w+)\}/g, ':$1'),
      handler: (request, reply) => {
        if (this.#lifecycle.inProgress >= MAX_REQUESTS) {
          const message = `at most ${MAX_REQUESTS} requests may be in progress at once; retry`;
          throw new ApiError(503, 'busy', message);
        }
        const serve = async () => {
          // The caller hung up while it waited.
          if (request.raw.socket.destroyed) return undefined;
          const prefix = prefixOf(request.headers);
          const handled = await handle({
            params: request.params as Readonly<Record<string, string>>,
            query: request.query as Query,
            headers: request.headers,
            root: rootFrom(request.url, prefix),
            remoteAddress: request.raw.socket.remoteAddress,
          });
          const response = below(prefix, handled);
          if (!('stream' in response)) {
            const isPrivate = this.#admission.covers(costOf(route));
            return this.#writer.write(response, request, reply, { isPrivate });
          }
          const busy = request.method === 'HEAD' ? undefined : this.#connections.hold(request.socket);
          if (busy !== undefined) throw busy;
          beginStream(response, request, reply, (reason) => this.#explain(reason));
          return undefined;
        };
        return this.#lifecycle.run(isBulk ? () => this.#bulk.run(serve) : serve);
      },
    });
  }

  #addWebSocket(route: WebSocketRoute): void {
    addWebSocket(this.#app, route, (socket, request) => {
      const address = request.socket.remoteAddress;
      try {
        route.accept(socket, request.raw, {
          unauthorized: this.#admission.check(request, 'expensive'),
          busy: this.#connections.hold(request.socket)?.message,
          explain: (error) => this.#explain(error),
          waitSeconds: () => this.#limiter.waitSeconds(address),
        });
      } catch (error) {
        this.#explain(error);
        socket.terminate();
      }
    });
  }

  /** Counts a request by the pattern of its route, never by its path: paths are unbounded. */
  #count(request: FastifyRequest, { raw }: FastifyReply): void {
    const route = patternOf(request) ?? (this.#admission.isForwardable(request) ? 'forwarded' : 'other');
    const end = this.#requests.begin(route, { isLasting: this.#lasting.has(route) });
    raw.once('close', () => end(raw.headersSent ? String(raw.statusCode) : 'cancelled'));
  }

  #explain(error: unknown): ApiError {
    return refusedByRouter(error) ?? this.#lifecycle.explain(error);
  }
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
