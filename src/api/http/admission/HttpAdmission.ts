import type { IncomingMessage } from 'node:http';
import { TLSSocket } from 'node:tls';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { TokenGuard } from '../../guard/TokenGuard.js';
import type { Cost, Credentials, GuardOptions } from '../../guard/TokenGuard.js';
import type { AddressLimiter } from '../../limits/AddressLimiter.js';
import type { ApiSecrets } from '../../guard/tls.js';
import { ApiError } from '../../view/ApiError.js';
import { refusalOf } from '../refusals.js';
import { costOf } from '../types.js';
import type { HttpRoutes } from '../types.js';
import { isAllowedOrigin } from './cors.js';
import type { HttpConnections } from './HttpConnections.js';

/** What a request must pass before it is handled: its form, its origin, the rate of its address, its token. */
export class HttpAdmission {
  readonly #corsOrigins: () => readonly string[];
  readonly #served: Pick<HttpRoutes, 'forwarding'>;
  readonly #connections: HttpConnections;
  readonly #limiter: AddressLimiter;
  readonly #tokens: TokenGuard;
  /** Requests of callers that may do everything. */
  readonly #known = new WeakSet<IncomingMessage>();
  /** Routes that the rate of an address does not apply to. */
  readonly #files: ReadonlySet<string>;
  readonly #costs: ReadonlyMap<string, Cost>;

  constructor(
    options: GuardOptions,
    dependencies: Pick<HttpRoutes, 'forwarding' | 'routes'> & {
      readonly connections: HttpConnections;
      readonly limiter: AddressLimiter;
      readonly corsOrigins: () => readonly string[];
    },
  ) {
    const { connections, corsOrigins, limiter, routes } = dependencies;
    this.#corsOrigins = corsOrigins;
    this.#served = dependencies;
    this.#connections = connections;
    this.#limiter = limiter;
    this.#tokens = new TokenGuard(options);
    this.#files = new Set(routes.flatMap(({ path, isFile }) => (isFile === true ? [path] : [])));
    this.#costs = new Map(routes.map((route) => [route.path, costOf(route)]));
  }

  /** True for a request that is to be forwarded. Expected errors: ApiError; its headers are in the reply. */
  admit(request: FastifyRequest, reply: FastifyReply): boolean {
    const isForwarded = request.is404 && this.isForwardable(request);
    const refusal = this.#refusalOf(request, reply, isForwarded);
    if (refusal !== undefined) {
      // The rest of the request is not read: the connection ends with the response.
      reply.header('connection', 'close');
      if (refusal.code === 405) reply.header('allow', 'GET, HEAD');
      throw refusal;
    }
    // A WebSocket is refused once it is open.
    const isFree = request.ws || this.#files.has(patternOf(request) ?? '');
    const waitSeconds = isFree ? 0 : this.#limiter.waitSeconds(request.socket.remoteAddress);
    if (waitSeconds > 0) {
      reply.header('retry-after', waitSeconds);
      throw this.#limiter.refusal(waitSeconds);
    }
    // A WebSocket is checked once it is open.
    const unauthorized = request.ws ? undefined : this.check(request, this.#costOf(request));
    if (unauthorized !== undefined) {
      if (isForwarded) reply.header('connection', 'close');
      throw unauthorized;
    }
    return isForwarded;
  }

  /** False: every caller may do everything. */
  get isGuarded(): boolean {
    return this.#tokens.isOn;
  }

  /** Replaces the tokens. */
  secure(secrets: ApiSecrets): void {
    this.#tokens.set(secrets);
  }

  /** Like `TokenGuard.covers`. */
  covers(cost: Cost): boolean {
    return this.#tokens.covers(cost);
  }

  /**
   * Why a request is refused; `undefined` if it may pass. Call it once: it removes the credentials, so that our tokens are never
   * forwarded to a node.
   */
  check(request: FastifyRequest, cost: Cost): ApiError | undefined {
    if (!this.#tokens.isOn) return undefined;
    const credentials = credentialsOf(request);
    delete request.raw.headers.authorization;
    if (this.#tokens.knows(credentials)) {
      this.#known.add(request.raw);
      return undefined;
    }
    return this.#tokens.covers(cost) ? this.#tokens.refusal(credentials) : undefined;
  }

  /** Whether an accepted request may also use the access nodes. */
  mayForward({ raw }: FastifyRequest): boolean {
    return !this.#tokens.isOn || this.#known.has(raw);
  }

  isForwardable({ method, url }: FastifyRequest): boolean {
    return this.#served.forwarding?.takes(method, url) === true;
  }

  #costOf(request: FastifyRequest): Cost {
    if (request.is404 && this.isForwardable(request)) return 'expensive';
    return this.#costs.get(patternOf(request) ?? '') ?? 'cheap';
  }

  #refusalOf(request: FastifyRequest, reply: FastifyReply, isForwarded: boolean): ApiError | undefined {
    const { method, ws, headers } = request;
    const refusal = refusalOf(request, isForwarded);
    if (refusal !== undefined) return refusal;
    // Browsers send a POST, and open a WebSocket, without a preflight.
    if ((method === 'POST' || ws) && !isAllowedOrigin(headers.origin, this.#corsOrigins())) {
      const message = 'pages of this origin are not allowed here (api.corsOrigins)';
      return new ApiError(403, 'origin_refused', message);
    }
    return this.#connections.refusalOf(request.raw.socket, reply.raw);
  }
}

/** The path of its route, as the table of routes has it. */
export function patternOf({ routeOptions }: FastifyRequest): string | undefined {
  return routeOptions.url?.replaceAll(/:(\w+)/g, '{$1}');
}

/** Pages cannot give a WebSocket a header: they name the token as the protocol after `bearer`. */
function credentialsOf({ headers, raw, ws }: FastifyRequest): Credentials {
  const [scheme, token] = (headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
  const isProtocol = ws && scheme === 'bearer' && token !== undefined;
  return {
    authorization: headers.authorization ?? (isProtocol ? `Bearer ${token}` : undefined),
    isKnownClient: raw.socket instanceof TLSSocket && raw.socket.authorized,
  };
}
