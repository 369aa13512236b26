import type { IndexReader } from '../storage/index.js';
import { quoted } from '../runtime/index.js';
import { ApiError } from './errors.js';
import { FlowRest } from './FlowRest.js';
import { HttpServer } from './HttpServer.js';
import type { HttpServerDependencies, HttpServerOptions } from './HttpServer.js';
import { isLookupKind, lookupDocument, lookupKinds } from './lookup.js';
import type { StatusSource } from './status.js';

export type ApiServerOptions = Omit<HttpServerOptions, 'settings'>;

export interface ApiServerDependencies extends HttpServerDependencies {
  readonly reader: IndexReader;
  readonly status: StatusSource;
}

/**
 * The read side over HTTP: `/status`, Flow's REST routes under `/v1`, and `/lookup/{kind}/{key}` for the command line.
 * It serves from the first second on, also while nothing is indexed, and never touches the writers.
 */
export class ApiServer {
  readonly #server: HttpServer;

  constructor(options: ApiServerOptions, dependencies: ApiServerDependencies) {
    const { reader, status } = dependencies;
    this.#server = new HttpServer(
      { ...options, settings: 'api' },
      {
        ...dependencies,
        routes: {
          '/status': () => ({ body: status.status() }),
          '/lookup/:kind/:key': async ({ params }) => {
            const kind = params['kind'] ?? '';
            if (!isLookupKind(kind)) {
              const message = `cannot look up ${quoted(kind)}; known: ${lookupKinds.join(', ')}`;
              throw new ApiError(400, 'invalid_argument', message);
            }
            return { body: await lookupDocument(reader, kind, params['key'] ?? '', status.range()) };
          },
          ...new FlowRest({ reader, status }).routes(),
        },
        unknownPath,
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

const served =
  '/status, /v1/blocks, /v1/blocks/{id}, /v1/blocks/{id}/payload, /v1/collections/{id}, /v1/transactions/{id}';

/** First segment under `/v1` of Flow's routes that need more than an index has, and what they need. */
const servedByAccessNodes: ReadonlyMap<string, string> = new Map([
  ['blocks', 'this part of a block'],
  ['collections', 'collections without an ID'],
  ['transactions', 'transactions without an ID'],
  ['transaction_results', 'transaction results'],
  ['execution_results', 'execution results'],
  ['accounts', 'accounts'],
  ['scripts', 'scripts'],
  ['events', 'events'],
  ['subscribe_events', 'event subscriptions'],
  ['ws', 'subscriptions'],
  ['network', 'network parameters'],
  ['node_version_info', 'node version information'],
]);

function unknownPath(path: string): ApiError {
  const [root, resource] = path.split('/').slice(1);
  const what = root === 'v1' && resource !== undefined ? servedByAccessNodes.get(resource) : undefined;
  const message =
    what === undefined
      ? `there is nothing at ${quoted(path)}; served here: ${served}`
      : `${quoted(path)} is not served: this index has no answer for ${what}; ask an access node`;
  return new ApiError(404, 'not_served', message);
}
