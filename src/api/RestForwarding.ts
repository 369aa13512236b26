import { Agent, request as httpRequest } from 'node:http';
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { Agent as TlsAgent, request as httpsRequest } from 'node:https';
import { pipeline, Transform } from 'node:stream';
import type { Clock } from '../runtime/index.js';
import { ApiError } from './errors.js';
import { forwardedBodyTooLarge, writeRefusal } from './httpLimits.js';

/** A transaction of 1.5 MB is 2 MB in base64. */
export const MAX_FORWARDED_BODY_BYTES = 4 * 1024 * 1024;
/** A larger answer is cut off. It is streamed: nothing of this size lies here. */
const MAX_ANSWER_BYTES = 256 * 1024 * 1024;
/** Requests forwarded at once. */
const MAX_REQUESTS = 64;
const CONNECT_TIMEOUT_MS = 5_000;
/** For a connection to the node on which nothing moves. */
const SILENCE_TIMEOUT_MS = 60_000;
/** Connections to the node that are kept for the next request. */
const MAX_IDLE_CONNECTIONS = 8;

/** What concerns one connection only. */
const NOT_PASSED_ON: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te'],
  ...['trailer', 'transfer-encoding', 'upgrade', 'host', 'expect'],
]);
/** Under `/v1`: what goes over websockets. */
const NOT_FORWARDED: ReadonlySet<string> = new Set(['ws', 'subscribe_events']);
const VIA = '1.1 flow-collection-indexer';

export interface RestForwardingOptions {
  /** Base address of a node's REST interface, to which the path of a request is added. */
  readonly to: string;
}

/** Passes requests under `/v1` on to a node's REST interface as they are, and the answers back. */
export class RestForwarding {
  readonly #base: URL;
  readonly #agent: Agent;
  readonly #clock: Clock;
  readonly #underWay = new Set<ClientRequest>();

  constructor(options: RestForwardingOptions, dependencies: { readonly clock: Clock }) {
    this.#base = new URL(options.to);
    this.#clock = dependencies.clock;
    const keeping = { keepAlive: true, maxFreeSockets: MAX_IDLE_CONNECTIONS };
    this.#agent = this.#base.protocol === 'https:' ? new TlsAgent(keeping) : new Agent(keeping);
  }

  /** True for a request that may be passed on: of Flow's own routes, and going where it says. */
  takes(method: string, url: string): boolean {
    if (!['GET', 'HEAD', 'POST'].includes(method)) return false;
    const [root, version, resource, ...rest] = (url.split('?', 1)[0] ?? '').split('/');
    if (root !== '' || version !== 'v1' || resource === undefined || resource === '') return false;
    return !NOT_FORWARDED.has(resource) && [resource, ...rest].every(isPlain);
  }

  /**
   * Answers a request by what the node answers. Where `own` is given it is told to the caller unless the node has an answer.
   * The response must be untouched, and is nobody else's from here.
   */
  pass(request: IncomingMessage, response: ServerResponse, own?: ApiError): void {
    const refuse = (error: ApiError): void => {
      if (response.writableEnded) return;
      if (response.headersSent) response.destroy();
      else writeRefusal(response, own ?? error, { isBodyUnread: !request.complete });
    };
    if (this.#underWay.size >= MAX_REQUESTS) {
      refuse(new ApiError(503, 'busy', `at most ${MAX_REQUESTS} requests are forwarded at once; ask again`));
      return;
    }
    const upstream = this.#open(request);
    this.#underWay.add(upstream);
    const connecting = this.#clock.setTimer(CONNECT_TIMEOUT_MS, () => upstream.destroy());
    upstream.once('socket', (socket) => {
      if (!socket.connecting) connecting.cancel();
      else socket.once('connect', () => connecting.cancel());
    });
    let isSilent = false;
    upstream.once('timeout', () => {
      isSilent = true;
      upstream.destroy();
    });
    let tooLarge: ApiError | undefined;
    upstream.on('error', () => {
      connecting.cancel();
      refuse(tooLarge ?? (isSilent ? silent() : unreachable(request.method)));
    });
    upstream.once('close', () => this.#underWay.delete(upstream));
    upstream.once('response', (answer) => {
      if (own !== undefined && (answer.statusCode ?? 0) >= 400) {
        answer.resume();
        refuse(own);
        return;
      }
      response.writeHead(answer.statusCode ?? 502, {
        ...passedOn(answer.headers),
        via: viaOf(answer.headers),
      });
      pipeline(answer, atMost(MAX_ANSWER_BYTES), response, () => upstream.destroy());
    });
    response.once('close', () => upstream.destroy());
    if (request.method === 'POST') {
      const bounded = atMost(
        MAX_FORWARDED_BODY_BYTES,
        () => (tooLarge = forwardedBodyTooLarge(MAX_FORWARDED_BODY_BYTES)),
      );
      bounded.once('error', (error) => upstream.destroy(error));
      // No pipeline: it would hang up on the caller, who is yet to be told what became of the request.
      request.pipe(bounded).pipe(upstream);
    } else {
      upstream.end();
    }
  }

  /** Cuts what is under way. */
  close(): void {
    for (const upstream of this.#underWay) upstream.destroy();
    this.#agent.destroy();
  }

  #open(request: IncomingMessage): ClientRequest {
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
      timeout: SILENCE_TIMEOUT_MS,
      // What must not arrive twice goes over a connection that nobody is about to close.
      agent: request.method === 'POST' ? false : this.#agent,
    });
  }
}

/** Not `.` or `..`, however it is written, and no second path within. */
function isPlain(segment: string): boolean {
  try {
    return !/^\.{1,2}$|[/\\]/.test(decodeURIComponent(segment));
  } catch {
    return false;
  }
}

function passedOn(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const named = (headers.connection ?? '').split(',').map((name) => name.trim().toLowerCase());
  const kept = Object.entries(headers).filter(([name]) => !NOT_PASSED_ON.has(name) && !named.includes(name));
  return Object.fromEntries(kept);
}

function viaOf(headers: IncomingHttpHeaders): string {
  return headers.via === undefined ? VIA : `${headers.via}, ${VIA}`;
}

/** Passes bytes on, and fails with what exceeds the bound. */
function atMost(maxBytes: number, onExceeded?: () => void): Transform {
  let bytes = 0;
  return new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      bytes += chunk.length;
      if (bytes <= maxBytes) {
        done(null, chunk);
        return;
      }
      onExceeded?.();
      done(new Error('more bytes than are passed on'));
    },
  });
}

function unreachable(method: string | undefined): ApiError {
  const message =
    method === 'POST'
      ? 'this request is forwarded, and the access node could not be reached, or broke off: whether it took a transaction is not known then'
      : 'this request is forwarded, and the access node cannot be reached now; what is indexed is served all the same';
  return new ApiError(503, 'upstream_unreachable', message);
}

function silent(): ApiError {
  const seconds = SILENCE_TIMEOUT_MS / 1_000;
  return new ApiError(
    504,
    'overdue',
    `the access node that this was forwarded to was silent for ${seconds} s`,
  );
}
