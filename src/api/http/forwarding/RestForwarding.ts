import { Agent, request as httpRequest } from 'node:http';
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import { Agent as TlsAgent, request as httpsRequest } from 'node:https';
import type { NodeMetadata } from '../../../access/index.js';
import type { Clock } from '../../../runtime/index.js';
import { ForwardingMetrics } from '../../limits/ForwardingMetrics.js';
import type { ForwardMetrics } from '../../limits/ForwardingMetrics.js';
import { ApiError } from '../../view/ApiError.js';
import { requestHeaders } from './forwardedHeaders.js';
import { UpstreamExchange } from './UpstreamExchange.js';

/** Requests forwarded at once. */
const MAX_REQUESTS = 64;
/** Idle connections to the node kept for the next request. */
const MAX_IDLE_CONNECTIONS = 8;

/** Under `/v1`: served over WebSocket. */
const NOT_FORWARDED: ReadonlySet<string> = new Set(['ws', 'subscribe_events']);
/** Under `/v1`: served by access nodes. Requests are counted by these names, and all others by one. */
const KNOWN: ReadonlySet<string> = new Set([
  ...['accounts', 'blocks', 'collections', 'events', 'network', 'node_version_info', 'scripts'],
  ...['execution_receipts', 'execution_results', 'transaction_results', 'transactions'],
  ...['scheduled_transaction_results', 'scheduled_transactions'],
  ...['system_transaction_results', 'system_transactions'],
]);

/** A node's REST interface. */
export interface RestNode {
  /** Its base address; the path of a request is appended. */
  readonly to: string;
  /** The headers of each request to it, in lower case, whatever its caller sent. Read for each request. */
  readonly metadata: () => NodeMetadata;
  /** Connections to it at once: half are for requests, half for WebSockets. Default: the bounds on those. */
  readonly maxSockets?: number | undefined;
}

export interface RestForwardingDependencies {
  readonly clock: Clock;
  /** Absent: forwarded requests are not counted. */
  readonly metrics?: ForwardMetrics | undefined;
  /** Why nothing may be forwarded now; `undefined` while it may. Absent: it always may. */
  readonly forwardingOff?: (() => string | undefined) | undefined;
}

/** Forwards requests under `/v1` to a node's REST interface unchanged, and the responses back. */
export class RestForwarding {
  readonly #base: URL;
  readonly #metadata: RestNode['metadata'];
  readonly #agent: Agent;
  readonly #maxRequests: number;
  readonly #dependencies: RestForwardingDependencies;
  readonly #counts: ForwardingMetrics;
  readonly #exchanges = new Set<UpstreamExchange>();

  constructor(node: RestNode, dependencies: RestForwardingDependencies) {
    this.#base = new URL(node.to);
    this.#metadata = node.metadata;
    this.#dependencies = dependencies;
    this.#counts = new ForwardingMetrics({ protocol: 'rest' }, dependencies);
    this.#maxRequests = Math.min(MAX_REQUESTS, Math.ceil((node.maxSockets ?? Infinity) / 2));
    const keeping = { keepAlive: true, maxFreeSockets: MAX_IDLE_CONNECTIONS };
    this.#agent = this.#isSecure ? new TlsAgent(keeping) : new Agent(keeping);
  }

  /** True for a request that may be forwarded: to one of Flow's own routes, with a path that stays below it. */
  takes(method: string, url: string): boolean {
    if (!['GET', 'HEAD', 'POST'].includes(method)) return false;
    const [root, version, resource = '', ...rest] = segmentsOf(url);
    if (root !== '' || version !== 'v1' || resource === '' || NOT_FORWARDED.has(resource)) return false;
    return [resource, ...rest].every(isPlain);
  }

  /**
   * Serves the request: resolves once the response has begun, or the caller has left. Until then nothing else may touch
   * `response`. `own`: what the caller is to get unless the node succeeds. `isPrivate`: callers had to say who they are.
   * Expected errors: ApiError, which the caller is to get.
   */
  async pass(
    request: IncomingMessage,
    response: ServerResponse,
    { own, isPrivate }: { readonly own: ApiError | undefined; readonly isPrivate: boolean },
  ): Promise<void> {
    const method = nameOf(request);
    const off = this.#dependencies.forwardingOff?.();
    if (off !== undefined || this.#exchanges.size >= this.#maxRequests) {
      this.#counts.turnedAway(method, off === undefined ? 'busy' : 'refused');
      const why = off ?? `at most ${this.#maxRequests} requests are forwarded at once; retry`;
      throw own ?? new ApiError(503, 'busy', why);
    }
    const count = this.#counts.begin(method, 'call');
    const sent = this.#metadata();
    const exchange = new UpstreamExchange(
      { request, response, own, sent, isPrivate, isSecure: this.#isSecure },
      {
        clock: this.#dependencies.clock,
        open: (isOnNewConnection) => this.#open(request, sent, isOnNewConnection),
        onEnd: (outcome) => {
          this.#exchanges.delete(exchange);
          count(outcome);
        },
      },
    );
    this.#exchanges.add(exchange);
    await exchange.begin();
  }

  /** Cuts what is in progress. */
  close(): void {
    for (const exchange of [...this.#exchanges]) exchange.cut();
    this.#agent.destroy();
  }

  get #isSecure(): boolean {
    return this.#base.protocol === 'https:';
  }

  #open(
    { url = '', method, headers }: IncomingMessage,
    sent: NodeMetadata,
    isOnNewConnection: boolean,
  ): ClientRequest {
    return (this.#isSecure ? httpsRequest : httpRequest)(this.#base, {
      // As text: parsing the caller's path would change it.
      path: this.#base.pathname.replace(/\/$/, '') + url,
      method,
      headers: requestHeaders(headers, sent),
      agent: isOnNewConnection ? false : this.#agent,
    });
  }
}

/** The label under which a request is counted. */
function nameOf({ method = '', url = '' }: IncomingMessage): string {
  const resource = segmentsOf(url)[2] ?? '';
  return `${method} ${KNOWN.has(resource) ? resource : 'other'}`;
}

function segmentsOf(url: string): readonly string[] {
  return (url.split('?', 1)[0] ?? '').split('/');
}

/** Neither `.` nor `..`, however encoded, and no path within. */
function isPlain(segment: string): boolean {
  try {
    return !/^\.{1,2}$|[/\\]/.test(decodeURIComponent(segment));
  } catch {
    return false;
  }
}
