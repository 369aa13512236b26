import { Agent, request as httpRequest } from 'node:http';
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { Agent as TlsAgent, request as httpsRequest } from 'node:https';
import dns from 'node:dns';
import type { LookupFunction } from 'node:net';
import { Transform, pipeline } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { addressTurns, longestValue, maskValues, withoutValues } from '../../access/index.js';
import type { NodeMetadata } from '../../access/index.js';
import { outOfDescriptors, type Clock, type Timer } from '../../runtime/index.js';
import { forwardCounter, type ForwardMetrics, type ForwardedOutcome } from '../limits/counters.js';
import { circleRefusal, OF_ONE_CONNECTION, PROGRAM } from '../limits/hops.js';
import { ApiError, busy, outOfFiles } from '../view/ApiError.js';
import { MAX_FORWARDED_BODY_BYTES, forwardedBodyTooLarge } from './refusals.js';
import { privately, variedBy } from './responses.js';

/** Requests forwarded at once. */
const MAX_REQUESTS = 64;
/** Idle connections to the node kept for the next request. */
const MAX_IDLE_CONNECTIONS = 8;
/** Limit of a response, which is streamed; a larger one is cut off. */
const MAX_RESPONSE_BYTES = 256 * 1024 * 1024;
/** For the connection to the node, encryption included. */
const CONNECT_TIMEOUT_MS = 5_000;
/** For a node that sends nothing and takes nothing. */
const SILENCE_TIMEOUT_MS = 60_000;
const UNAUTHORIZED = 401;
const NOT_ACCEPTED =
  'this request is forwarded, but the access node refuses what this indexer identifies itself with (access.metadataFile): tell its operator';

/** Under `/v1`: served over WebSocket. */
const NOT_FORWARDED: ReadonlySet<string> = new Set(['ws', 'subscribe_events']);
/** Under `/v1`: served by access nodes. Requests are counted by these names, and all others by one. */
const KNOWN: ReadonlySet<string> = new Set([
  ...['accounts', 'blocks', 'collections', 'events', 'network', 'node_version_info', 'scripts'],
  ...['execution_receipts', 'execution_results', 'transaction_results', 'transactions'],
  ...['scheduled_transaction_results', 'scheduled_transactions'],
  ...['system_transaction_results', 'system_transactions'],
]);

/** Cookies belong to the site that serves us, such as those of a proxy that requires a login. */
const NOT_PASSED_ON: ReadonlySet<string> = new Set([...OF_ONE_CONNECTION, 'expect', 'cookie', 'set-cookie']);
const VIA = `1.1 ${PROGRAM}`;

/** A node's REST interface. */
export interface RestNode extends ReturnType<typeof nodeConnections> {
  /** The headers of each request to it, in lower case, in place of those of its caller. Read for each request. */
  readonly metadata: () => NodeMetadata;
  /** Connections to it at once: half are for requests, half for WebSockets. Default: the bounds on those. */
  readonly maxSockets?: number | undefined;
}

/**
 * How to connect to the node at this base address, to which the path of a request is appended: after unanswered requests or
 * handshakes, another address of its name is tried first.
 */
export function nodeConnections(to: string, clock: Clock) {
  const base = new URL(to);
  let first = 0;
  const lookup: LookupFunction = (name, options, done) => {
    dns.lookup(name, { ...options, all: true }, (error, found) => {
      const at = error === null ? first % found.length : 0;
      done(error, error === null ? [...found.slice(at), ...found.slice(0, at)] : []);
    });
  };
  // Asked for all addresses at once, `lookup` decides on their order.
  const how = { lookup, autoSelectFamily: true };
  const keeping = { ...how, keepAlive: true, maxFreeSockets: MAX_IDLE_CONNECTIONS };
  const agent = base.protocol === 'https:' ? new TlsAgent(keeping) : new Agent(keeping);
  const turns = addressTurns(clock, (turn) => {
    first = turn;
    for (const kept of Object.values(agent.freeSockets)) for (const socket of kept ?? []) socket.destroy();
  });
  return { base, how, agent, turns };
}

interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** What the caller gets unless the node succeeds. */
  readonly own: ApiError | undefined;
  /** Callers had to authenticate, which the node does not know. */
  readonly isPrivate: boolean;
}

export type RestForwarding = ReturnType<typeof restForwarding>;

/** Forwards requests under `/v1` to a node's REST interface unchanged, and the responses back. */
export function restForwarding(
  node: RestNode,
  parts: {
    readonly clock: Clock;
    readonly metrics: ForwardMetrics;
    /** Why forwarding is off now; `undefined` while it is on. Absent: it is always on. */
    readonly forwardingOff?: (() => string | undefined) | undefined;
  },
) {
  const { agent, base, how, turns } = node;
  const maxRequests = Math.min(MAX_REQUESTS, Math.ceil((node.maxSockets ?? Infinity) / 2));
  const counts = forwardCounter('rest', parts);
  /** Each ends a request in progress. */
  const cuts = new Set<() => void>();

  /** Passes one request on, and the response back. `onBegun`, `onRefused`: how `pass` ends. */
  const exchange = (
    { request, response, own, isPrivate }: Asked,
    count: (outcome: ForwardedOutcome) => void,
    onBegun: () => void,
    onRefused: (error: ApiError) => void,
  ): void => {
    const { url = '', method, headers: asked } = request;
    /** The headers that the node wants, which the caller must not learn from it. */
    const sent = node.metadata();
    let upstream: ClientRequest | undefined;
    let isConnected = false;
    let hasResponse = false;
    let isOver = false;
    let silence: Timer | undefined;
    const startedMs = parts.clock.monotonic();
    /** `error`: why it ends before all of the response is passed on. */
    const end = (outcome: ForwardedOutcome, error?: ApiError): void => {
      if (isOver) return;
      isOver = true;
      if (!hasResponse) turns.unanswered(startedMs);
      silence?.cancel();
      cuts.delete(cut);
      count(outcome);
      // A response that has begun can only be cut off.
      if (error !== undefined && response.headersSent) response.destroy();
      else if (error !== undefined) onRefused(own ?? error);
      onBegun();
      // A response that the caller does not get is read to its end, so that the connection can be kept.
      if (outcome !== 'missed') upstream?.destroy();
    };
    const cut = (): void => end('cancelled', unreachable(request));
    /** Restarts the wait for a sign of life from the node. */
    const expect = (withinMs: number): void => {
      silence?.cancel();
      if (isOver) return;
      silence = parts.clock.setTimer(withinMs, () => {
        const message = `the access node that this was forwarded to was silent for ${SILENCE_TIMEOUT_MS / 1_000} s`;
        // The server cuts callers that take nothing.
        if (response.writableNeedDrain) expect(withinMs);
        else if (isConnected) end('overdue', new ApiError(504, 'overdue', message));
        else end('unreachable', unreachable(request));
      });
    };
    /** The node has sent or taken something. Until it is connected, only our buffers have. */
    const moved = (): void => {
      if (isConnected) expect(SILENCE_TIMEOUT_MS);
    };
    const endOdd = (): void => end('lost', unreachable(request, { code: 'HPE_INVALID_STATUS' }));
    const passBack = (from: IncomingMessage, statusCode: number): void => {
      const { headers } = from;
      // Which pages may read the response is our decision, not the node's.
      const kept = Object.entries(passedOn(headers)).filter(([name]) => !name.startsWith('access-control-'));
      const given = variedBy(headers.vary, response.getHeader('vary'));
      const vary = isPrivate ? variedBy('authorization', given) : given;
      // Without it, caches keep a response for minutes, the status of a transaction among them.
      const control = headers['cache-control'] ?? 'no-cache';
      response.writeHead(statusCode, {
        ...Object.fromEntries(kept.map(([name, value]) => [name, masked(value, sent)])),
        via: viaOf(headers),
        ...(vary === '' ? {} : { vary }),
        'cache-control': isPrivate ? privately(control) : control,
        // The rest of an unfinished request is not read: its connection ends with the response.
        ...(request.complete ? {} : { connection: 'close' }),
      });
      onBegun();
      const bounded = atMost(MAX_RESPONSE_BYTES, moved, sent);
      from.once('error', () => end('lost'));
      bounded.once('error', () => end('failed'));
      pipeline(from, bounded, response, (error) =>
        end(error instanceof Error ? 'cancelled' : statusCode < 400 ? 'answered' : 'failed'),
      );
    };
    /** Over a kept connection, unless it must be a new one. */
    const send = (isOnNewConnection: boolean): void => {
      const opened = (base.protocol === 'https:' ? httpsRequest : httpRequest)(base, {
        // As text: parsing the caller's path would change it.
        path: base.pathname.replace(/\/$/, '') + url,
        method,
        headers: requestHeaders(asked, sent),
        ...how,
        agent: isOnNewConnection ? false : agent,
      });
      upstream = opened;
      isConnected = false;
      expect(CONNECT_TIMEOUT_MS);
      const onConnected = (): void => {
        isConnected = true;
        moved();
      };
      opened.once('socket', (socket) => {
        if (opened.reusedSocket) onConnected();
        else socket.once(socket instanceof TLSSocket ? 'secureConnect' : 'connect', onConnected);
      });
      opened.on('error', (error) => {
        // A response that has begun reports its own end.
        if (hasResponse || isOver || opened !== upstream) return;
        // The node closed a kept connection just as it was used again: try a new one.
        if (outOfDescriptors(error) !== undefined) end('refused', outOfFiles());
        else if (opened.reusedSocket) send(true);
        else end(isConnected ? 'lost' : 'unreachable', unreachable(request, error));
      });
      // No upgrade was requested.
      opened.once('upgrade', (_from, socket) => {
        socket.destroy();
        endOdd();
      });
      opened.once('response', (from) => {
        hasResponse = true;
        turns.answered();
        moved();
        const { statusCode = 502 } = from;
        if (statusCode < 200) endOdd();
        // Callers cannot change the credentials that we sent.
        else if (statusCode === UNAUTHORIZED && longestValue(sent) > 0)
          end('failed', new ApiError(503, 'upstream_refusing', NOT_ACCEPTED));
        else if (own !== undefined && statusCode >= 400) {
          from.on('error', () => undefined).resume();
          end('missed', own);
        } else passBack(from, statusCode);
      });
      if (method !== 'POST') {
        // The node would take the next request on this connection for the body, which is not passed on.
        opened.removeHeader('content-length');
        opened.end();
        return;
      }
      const bounded = atMost(MAX_FORWARDED_BODY_BYTES, moved);
      bounded.once('error', () => end('refused', forwardedBodyTooLarge()));
      // Not a pipeline, which would hang up on the caller before it gets the outcome.
      request.pipe(bounded).pipe(opened);
    };
    cuts.add(cut);
    // Nothing moves on the caller's connection while it waits; our own timeouts apply instead.
    response.on('timeout', () => undefined);
    const leave = (): unknown => request.socket.destroy();
    // A caller that half-closes cannot be distinguished from one that has left.
    request.socket.once('end', leave);
    response.once('close', () => {
      request.socket.off('end', leave);
      if (!response.writableFinished) end('cancelled');
      upstream?.destroy();
    });
    // A POST must not be sent twice, so it does not go over a connection that the node may be closing.
    send(method === 'POST');
  };

  return {
    /** True for a request that may be forwarded: to one of Flow's own routes, with a path that stays below it. */
    takes: (method: string, url: string): boolean => {
      if (!['GET', 'HEAD', 'POST'].includes(method)) return false;
      const [root, version, resource = '', ...rest] = segmentsOf(url);
      if (root !== '' || version !== 'v1' || resource === '' || NOT_FORWARDED.has(resource)) return false;
      return [resource, ...rest].every(isPlain);
    },

    /**
     * Serves the request: resolves once the response has begun, or the caller has left. Until then nothing else may touch
     * the response. Expected errors: ApiError, which the caller is to get.
     */
    pass: async (asked: Asked): Promise<void> => {
      const resource = segmentsOf(asked.request.url ?? '')[2] ?? '';
      const method = `${asked.request.method} ${KNOWN.has(resource) ? resource : 'other'}`;
      const off = parts.forwardingOff?.();
      const refusal = circleRefusal(asked.request.headers.via) ?? (off === undefined ? undefined : busy(off));
      if (refusal !== undefined || cuts.size >= maxRequests) {
        counts.turnedAway(method, refusal === undefined ? 'busy' : 'refused');
        throw asked.own ?? refusal ?? busy(`at most ${maxRequests} requests are forwarded at once; retry`);
      }
      const count = counts.begin(method, 'call');
      // The caller left while the index was read.
      if (asked.request.socket.destroyed) count('cancelled');
      else await new Promise<void>((resolve, reject) => exchange(asked, count, resolve, reject));
    },

    /** Cuts what is in progress. */
    close: (): void => {
      for (const cut of [...cuts]) cut();
      agent.destroy();
    },
  };
}

function segmentsOf(url: string): readonly string[] {
  return (url.split('?', 1)[0] ?? '').split(/\/+/);
}

/** Neither `.` nor `..`, and without slashes, however encoded. */
function isPlain(segment: string): boolean {
  try {
    return !/^\.{1,2}$|[/\\]/.test(decodeURIComponent(segment));
  } catch {
    return false;
  }
}

/** The headers of a request to a node: those of the caller, except where the node wants its own. */
export function requestHeaders(headers: IncomingHttpHeaders, wanted: NodeMetadata): IncomingHttpHeaders {
  // Values that a node repeats are found in plain text only.
  const plain = Object.keys(wanted).length === 0 ? {} : { 'accept-encoding': 'identity' };
  return { ...passedOn(headers), ...plain, ...wanted, via: viaOf(headers) };
}

/** The headers of a forwarded request or response that are passed on. */
function passedOn(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const named = (headers.connection ?? '').split(',').map((name) => name.trim().toLowerCase());
  const kept = Object.entries(headers).filter(([name]) => !NOT_PASSED_ON.has(name) && !named.includes(name));
  return Object.fromEntries(kept);
}

/** The `via` header, with this program appended. */
function viaOf({ via }: IncomingHttpHeaders): string {
  return via === undefined ? VIA : `${via}, ${VIA}`;
}

function masked(value: string | string[] | undefined, sent: NodeMetadata): string | string[] | undefined {
  if (Array.isArray(value)) return value.map((each) => withoutValues(each, sent));
  return value === undefined ? undefined : withoutValues(value, sent);
}

/** Passes bytes on, and fails beyond `maxBytes`. `secrets`: values that they must not hold, even across chunks. */
function atMost(maxBytes: number, onMoved: () => unknown, secrets: NodeMetadata = {}): Transform {
  const keptBytes = Math.max(0, longestValue(secrets) - 1);
  let bytes = 0;
  let kept: Buffer = Buffer.alloc(0);
  return new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      bytes += chunk.length;
      onMoved();
      if (bytes > maxBytes) {
        done(new Error('more bytes than are passed on'));
        return;
      }
      if (keptBytes === 0) {
        done(null, chunk);
        return;
      }
      const all = Buffer.concat([kept, chunk]);
      maskValues(all, secrets);
      const end = Math.max(0, all.length - keptBytes);
      kept = all.subarray(end);
      done(null, all.subarray(0, end));
    },
    flush: (done) => done(null, kept),
  });
}

function unreachable({ method }: IncomingMessage, error?: object): ApiError {
  const why = failureOf(error);
  const message =
    method === 'POST'
      ? `this request is forwarded, and the access node could not be reached or broke off${why}: whether it accepted a transaction is unknown`
      : `this request is forwarded, but the access node cannot be reached now${why}; indexed data is still served`;
  return new ApiError(503, 'upstream_unreachable', message);
}

/** Why a connection to the node failed, in brackets, for callers: without its address. */
export function failureOf(error?: object): string {
  const code = error !== undefined && 'code' in error ? String(error.code) : '';
  if (!code.startsWith('HPE_')) return code === '' ? '' : ` (${code})`;
  return ` (${code}: what answers does not speak HTTP as it should; api.forwardRest takes the port for REST, not for gRPC)`;
}
