import { Agent, request as httpRequest } from 'node:http';
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { Agent as TlsAgent, request as httpsRequest } from 'node:https';
import type { Clock } from '../../runtime/index.js';
import { ApiError } from '../view/ApiError.js';
import { ForwardingMetrics } from '../limits/ForwardingMetrics.js';
import type { ForwardMetrics } from '../limits/ForwardingMetrics.js';
import { passedOn, viaOf } from './forwardedHeaders.js';
import { writeRefusal } from './refusals.js';
import { UpstreamExchange } from './UpstreamExchange.js';

/** Requests forwarded at once. */
const MAX_REQUESTS = 64;
const TOO_MANY = `at most ${MAX_REQUESTS} requests are forwarded at once; ask again`;
/** Connections to the node that are kept for the next request. */
const MAX_IDLE_CONNECTIONS = 8;

/** Under `/v1`: what goes over websockets. */
const NOT_FORWARDED: ReadonlySet<string> = new Set(['ws', 'subscribe_events']);
/** Under `/v1`: what access nodes serve. By these names requests are counted, all others by one. */
const KNOWN: ReadonlySet<string> = new Set([
  ...['accounts', 'blocks', 'collections', 'events', 'network', 'node_version_info', 'scripts'],
  ...['execution_receipts', 'execution_results', 'transaction_results', 'transactions'],
  ...['scheduled_transaction_results', 'scheduled_transactions'],
  ...['system_transaction_results', 'system_transactions'],
]);

export interface RestForwardingOptions {
  /** Base address of a node's REST interface, to which the path of a request is added. */
  readonly to: string;
}

export interface RestForwardingDependencies {
  readonly clock: Clock;
  /** Left out: what is forwarded is not counted. */
  readonly metrics?: ForwardMetrics | undefined;
  /** Why nothing may be forwarded now; `undefined` while it may. Left out: it always may. */
  readonly forwardingOff?: (() => string | undefined) | undefined;
}

/** Passes requests under `/v1` on to a node's REST interface as they are, and the answers back. */
export class RestForwarding {
  readonly #base: URL;
  readonly #agent: Agent;
  readonly #clock: Clock;
  readonly #counts: ForwardingMetrics;
  readonly #forwardingOff: RestForwardingDependencies['forwardingOff'];
  readonly #underWay = new Set<UpstreamExchange>();

  constructor(options: RestForwardingOptions, dependencies: RestForwardingDependencies) {
    this.#base = new URL(options.to);
    this.#clock = dependencies.clock;
    this.#forwardingOff = dependencies.forwardingOff;
    this.#counts = new ForwardingMetrics({ protocol: 'rest' }, dependencies);
    const keeping = { keepAlive: true, maxFreeSockets: MAX_IDLE_CONNECTIONS };
    this.#agent = this.#base.protocol === 'https:' ? new TlsAgent(keeping) : new Agent(keeping);
  }

  /** True for a request that may be passed on: of Flow's own routes, and going where it says. */
  takes(method: string, url: string): boolean {
    if (!['GET', 'HEAD', 'POST'].includes(method)) return false;
    const [root, version, resource, ...rest] = segmentsOf(url);
    if (root !== '' || version !== 'v1' || resource === undefined || resource === '') return false;
    return !NOT_FORWARDED.has(resource) && [resource, ...rest].every(isPlain);
  }

  /**
   * Answers a request by what the node answers. Where `own` is given it is told to the caller unless the node has an answer.
   * The response must be untouched, and is nobody else's from here.
   */
  pass(request: IncomingMessage, response: ServerResponse, own?: ApiError): void {
    const method = nameOf(request);
    const off = this.#forwardingOff?.();
    const why = off ?? (this.#underWay.size >= MAX_REQUESTS ? TOO_MANY : undefined);
    if (why !== undefined) {
      this.#counts.turnedAway(method, off === undefined ? 'busy' : 'refused');
      const refusal = own ?? new ApiError(503, 'busy', why);
      if (!response.writableEnded) writeRefusal(response, refusal, { isBodyUnread: !request.complete });
      return;
    }
    const count = this.#counts.begin(method, 'call');
    const exchange = new UpstreamExchange(
      { request, response, own, isSecure: this.#base.protocol === 'https:', marks: answerMarks },
      {
        clock: this.#clock,
        open: (isOnNewConnection) => this.#open(request, isOnNewConnection),
        onEnd: (outcome) => {
          this.#underWay.delete(exchange);
          count(outcome);
        },
      },
    );
    this.#underWay.add(exchange);
    exchange.begin();
  }

  /** Cuts what is under way. */
  close(): void {
    for (const exchange of [...this.#underWay]) exchange.cut();
    this.#agent.destroy();
  }

  #open(request: IncomingMessage, isOnNewConnection: boolean): ClientRequest {
    const { protocol, hostname, port, pathname } = this.#base;
    const open = protocol === 'https:' ? httpsRequest : httpRequest;
    return open({
      protocol,
      // An IPv6 address stands in brackets in a URL, and nowhere else.
      hostname: hostname.replace(/^\[(.*)\]$/, '$1'),
      ...(port === '' ? {} : { port }),
      path: pathname.replace(/\/$/, '') + (request.url ?? ''),
      method: request.method ?? 'GET',
      headers: { ...passedOn(request.headers), via: viaOf(request.headers) },
      agent: isOnNewConnection ? false : this.#agent,
    });
  }
}

/** What a request is counted as. */
function nameOf({ method = '', url = '' }: IncomingMessage): string {
  const resource = segmentsOf(url)[2] ?? '';
  return `${method} ${KNOWN.has(resource) ? resource : 'other'}`;
}

function segmentsOf(url: string): readonly string[] {
  return (url.split('?', 1)[0] ?? '').split('/');
}

/** The headers of the node's answer, as the caller gets them. Which pages may read it is for us to say, not for the node. */
function answerMarks(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const kept = Object.entries(passedOn(headers)).filter(([name]) => !name.startsWith('access-control-'));
  return { ...Object.fromEntries(kept), via: viaOf(headers) };
}

/** Not `.` or `..`, however it is written, and no second path within. */
function isPlain(segment: string): boolean {
  try {
    return !/^\.{1,2}$|[/\\]/.test(decodeURIComponent(segment));
  } catch {
    return false;
  }
}
