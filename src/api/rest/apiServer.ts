import type { ConnectionMetrics } from '../../observability/index.js';
import { quoted } from '../../runtime/index.js';
import { HttpServer, type HttpServerOptions } from '../http/HttpServer.js';
import { nodeConnections, restForwarding, type RestNode } from '../http/restForwarding.js';
import { costOf, type HttpRoute } from '../http/types.js';
import type { ApiMetrics, ForwardMetrics } from '../limits/counters.js';
import type { ServerDependencies } from '../server/ListeningServer.js';
import { openApiDocument, openApiSchema, type Route } from '../openapi.js';
import { docsPage } from '../page/docs.js';
import { fileRoutes, statusPage } from '../page/pages.js';
import { ApiError } from '../view/ApiError.js';
import { webSocketApi } from '../ws/webSocketApi.js';
import { daemonRoutes, type DaemonRoutesDependencies } from './daemonRoutes.js';
import { flowRoutes } from './flowRoutes.js';

export interface ApiServerOptions extends HttpServerOptions {
  /** Base address of a node's REST interface, for requests that the index cannot serve. Default: they are refused. */
  readonly forwardRest?: string | undefined;
  /** Like `RestNode.maxSockets`. */
  readonly forwardSockets?: number | undefined;
  readonly chainId: string;
  /** Version of the program. */
  readonly version: string;
}

export interface ApiServerDependencies extends ServerDependencies, DaemonRoutesDependencies {
  readonly metrics: ForwardMetrics & ApiMetrics & ConnectionMetrics;
  /** Why forwarding is off now; `undefined` while it is on. Absent: it is always on. */
  readonly forwardingOff?: (() => string | undefined) | undefined;
  /** The headers that this node wants. Default: none. */
  readonly restMetadata?: RestNode['metadata'] | undefined;
}

/** The read side over HTTP. It serves from the first second on, even while nothing is indexed. */
export function apiServer(options: ApiServerOptions, dependencies: ApiServerDependencies): HttpServer {
  const { forwardRest, forwardSockets: maxSockets, version } = options;
  const { restMetadata = () => ({}) } = dependencies;
  const restNode =
    forwardRest === undefined
      ? undefined
      : { ...nodeConnections(forwardRest, dependencies.clock), metadata: restMetadata, maxSockets };
  const document = () =>
    openApiDocument(routes, { version, needsToken: (route) => server.guard.covers(costOf(route)) });
  const routes: readonly Route[] = [
    ...flowRoutes(options, dependencies),
    ...daemonRoutes(dependencies),
    {
      path: '/openapi.json',
      operation: 'getOpenApiDocument',
      kind: 'open',
      summary: 'This document.',
      parameters: [],
      response: openApiSchema,
      errors: [],
      handle: () => ({ body: document(), kept: 'revalidated' }),
    },
  ];
  const pages: readonly HttpRoute[] = [
    { path: '/', kind: 'open', handle: ({ root }) => statusPage(version, root) },
    ...fileRoutes(),
    { path: '/docs', kind: 'open', handle: ({ root }) => docsPage(document(), root) },
  ];
  const server = new HttpServer('api', options, {
    ...dependencies,
    routes: [...routes, ...pages],
    forwarding: restNode && restForwarding(restNode, dependencies),
    webSocket: webSocketApi({ ...dependencies, restNode }),
    unknownPath: (path) => unknownPath(path, routes),
  });
  return server;
}

/** First segment under `/v1` of Flow's routes that need more than an index has, and what they need. */
const servedByAccessNodes: ReadonlyMap<string, string> = new Map([
  ['blocks', 'this part of a block'],
  ['collections', 'collections without an ID'],
  ['transactions', 'this part of a transaction'],
  ['transaction_results', 'transaction results: execution is not indexed'],
  ['execution_results', 'execution results: execution is not indexed'],
  ['accounts', 'accounts: execution is not indexed'],
  ['scripts', 'scripts: it executes nothing'],
  ['events', 'events: execution is not indexed'],
  ['subscribe_events', 'event subscriptions: execution is not indexed'],
  ['network', 'this part of the network'],
]);

const metricsPaths: readonly string[] = ['/metrics', '/readyz', '/livez'];

function unknownPath(path: string, routes: readonly Route[]): ApiError {
  if (metricsPaths.includes(path))
    return new ApiError(404, 'not_served', `${path} is served at the port for metrics (metrics.port)`);
  const [root, resource] = path.split('/').slice(1);
  const what = root === 'v1' && resource !== undefined ? servedByAccessNodes.get(resource) : undefined;
  const orForward =
    resource === 'subscribe_events' ? '' : ', or have the daemon forward such requests (api.forwardRest)';
  const message =
    what === undefined
      ? `there is nothing at ${quoted(path)}; served here: ${routes.map((route) => route.path).join(', ')}`
      : `${quoted(path)} is not served: this index does not have ${what}; ask an access node${orForward}`;
  return new ApiError(404, 'not_served', message);
}
