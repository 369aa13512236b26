import { quoted } from '../../runtime/index.js';
import { accountDocument } from '../documents/accountTransactions.js';
import { ApiError } from '../view/ApiError.js';
import { EventStreams } from './EventStreams.js';
import type { ChangeFeed } from '../feed/ChangeFeed.js';
import { explainDocument } from '../documents/explainDocument.js';
import { exportPage, exportRange, NDJSON_TYPE } from '../documents/exportPage.js';
import type { ForwardMetrics } from '../limits/ForwardingMetrics.js';
import type { ApiMetrics } from '../limits/ApiRequests.js';
import { FlowRest } from './FlowRest.js';
import type { HttpAnswer, HttpRequest, HttpRoute } from '../http/types.js';
import { HttpServer } from '../http/HttpServer.js';
import type { HttpServerDependencies, HttpServerOptions } from '../http/HttpServer.js';
import { isLookupKind, lookupBuilder, lookupKinds } from '../documents/lookupDocument.js';
import { single } from '../view/queryParameters.js';
import { openApiDocument } from '../openapi/openApiDocument.js';
import { docsPage } from '../page/docs.js';
import { homePage } from '../page/home.js';
import { HTML_TYPE } from '../page/Html.js';
import { RestForwarding } from '../http/RestForwarding.js';
import { daemonRoutes } from '../openapi/routeTable.js';
import type { Route } from '../openapi/routeTable.js';
import type { ReadableIndex } from '../view/IndexView.js';
import type { StatusSource } from '../view/statusDocument.js';
import { entityTag } from '../http/cacheHeaders.js';
import type { WorkSource } from '../view/heightWork.js';
import { WebSockets } from '../ws/WebSockets.js';

export interface ApiServerOptions extends Omit<HttpServerOptions, 'settings'> {
  /** Base address of a node's REST interface, which gets what the index cannot answer. Default: that is refused. */
  readonly forwardRest?: string | undefined;
  readonly chainId: string;
  /** Of the program. */
  readonly version: string;
}

export interface ApiServerDependencies extends HttpServerDependencies {
  readonly reader: ReadableIndex;
  readonly status: StatusSource;
  /** Its streams are its owner's to end, before the server is closed. */
  readonly feed: ChangeFeed;
  readonly work: WorkSource;
  /** Left out: neither requests nor what is forwarded are counted. */
  readonly metrics?: (ForwardMetrics & ApiMetrics) | undefined;
  /** Why nothing may be forwarded now; `undefined` while it may. Left out: it always may. */
  readonly forwardingOff?: (() => string | undefined) | undefined;
}

/**
 * The read side over HTTP: `/status`, Flow's REST routes under `/v1`, `/lookup`, `/explain` and `/export` for the command
 * line, `/events`, Flow's WebSocket API, the account index, and `/openapi.json`, which describes them. It serves from the first second on, also while nothing is indexed, and never
 * touches the writers.
 */
export class ApiServer {
  readonly #server: HttpServer;

  constructor(options: ApiServerOptions, dependencies: ApiServerDependencies) {
    const { reader, status } = dependencies;
    const { forwardRest, version } = options;
    const forwarding =
      forwardRest === undefined ? undefined : new RestForwarding({ to: forwardRest }, dependencies);
    const events = new EventStreams(dependencies);
    const webSocket = new WebSockets({ forwardRest }, dependencies);
    const routes: readonly Route[] = [
      ...new FlowRest(options, { reader, status }).routes(),
      { ...daemonRoutes.status, handle: async () => ({ body: await status.status() }) },
      { ...daemonRoutes.lookup, handle: (request) => lookUp(dependencies, request) },
      { ...daemonRoutes.events, handle: (request) => events.answer(request) },
      { ...daemonRoutes.explain, handle: (request) => explain(dependencies, request) },
      { ...daemonRoutes.export, handle: (request) => exportLines(dependencies, request) },
      { ...daemonRoutes.accountTransactions, handle: (request) => listAccount(dependencies, request) },
      { ...daemonRoutes.openApi, handle: () => describe(version, routes) },
    ];
    const pages: readonly HttpRoute[] = [
      {
        path: '/',
        handle: async () => ({ contentType: HTML_TYPE, body: homePage(await status.status()) }),
      },
      { path: '/docs', handle: () => docs(version, routes) },
    ];
    this.#server = new HttpServer(
      { ...options, settings: 'api' },
      {
        ...dependencies,
        routes: [...routes, ...pages],
        forwarding,
        webSocket,
        unknownPath: (path) => unknownPath(path, routes),
      },
    );
  }

  /** Expected errors: OperatorError (`configuration`) when the address cannot be used. */
  start(): Promise<void> {
    return this.#server.start();
  }

  address(): { readonly host: string; readonly port: number } {
    return this.#server.address();
  }

  close(): Promise<void> {
    return this.#server.close();
  }
}

async function lookUp(
  { reader, status }: ApiServerDependencies,
  { params }: HttpRequest,
): Promise<HttpAnswer> {
  const kind = params['kind'] ?? '';
  if (!isLookupKind(kind)) {
    const message = `cannot look up ${quoted(kind)}; known: ${lookupKinds.join(', ')}`;
    throw new ApiError(400, 'invalid_argument', message);
  }
  return { build: await lookupBuilder(reader, kind, params['key'] ?? '', status.range()) };
}

async function explain(
  { reader, work }: ApiServerDependencies,
  { params }: HttpRequest,
): Promise<HttpAnswer> {
  return { body: await explainDocument(reader, params['key'] ?? '', work) };
}

async function exportLines(
  { reader, status }: ApiServerDependencies,
  { query }: HttpRequest,
): Promise<HttpAnswer> {
  const asked = exportRange(query, status.range());
  return { contentType: NDJSON_TYPE, body: await exportPage(reader, asked) };
}

async function listAccount(
  { reader, status }: ApiServerDependencies,
  { params, query }: HttpRequest,
): Promise<HttpAnswer> {
  const asked = {
    address: params['address'] ?? '',
    role: single(query, 'role'),
    limit: single(query, 'limit'),
    cursor: single(query, 'cursor'),
  };
  return { body: await accountDocument(reader, asked, status.range()) };
}

function docs(version: string, routes: readonly Route[]): HttpAnswer {
  const body = docsPage(openApiDocument(routes, { version }));
  return { contentType: HTML_TYPE, body, validity: { tag: entityTag('docs', body), isForever: false } };
}

function describe(version: string, routes: readonly Route[]): HttpAnswer {
  const body = openApiDocument(routes, { version });
  return { body, validity: { tag: entityTag('openapi', JSON.stringify(body)), isForever: false } };
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

function unknownPath(path: string, routes: readonly Route[]): ApiError {
  const [root, resource] = path.split('/').slice(1);
  const what = root === 'v1' && resource !== undefined ? servedByAccessNodes.get(resource) : undefined;
  const orForward =
    resource === 'subscribe_events' ? '' : ', or have the daemon forward such requests (api.forwardRest)';
  const message =
    what === undefined
      ? `there is nothing at ${quoted(path)}; served here: ${routes.map((route) => route.path).join(', ')}`
      : `${quoted(path)} is not served: this index has no answer for ${what}; ask an access node${orForward}`;
  return new ApiError(404, 'not_served', message);
}
