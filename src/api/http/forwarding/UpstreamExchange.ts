import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import { pipeline, Transform } from 'node:stream';
import { longestValue, maskValues, withoutValues } from '../../../access/index.js';
import type { NodeMetadata } from '../../../access/index.js';
import { outOfDescriptors } from '../../../runtime/index.js';
import type { Clock, Timer } from '../../../runtime/index.js';
import type { ForwardedOutcome } from '../../limits/ForwardingMetrics.js';
import { ApiError, outOfFiles } from '../../view/ApiError.js';
import { passedOn, viaOf } from './forwardedHeaders.js';
import { IdleTimeout } from './IdleTimeout.js';
import { forwardedBodyTooLarge, MAX_FORWARDED_BODY_BYTES } from '../refusals.js';
import { privately } from '../responses/cacheHeaders.js';
import { variedBy } from '../responses/ResponseWriter.js';

/** Limit of a response, which is streamed; a larger one is cut off. */
const MAX_RESPONSE_BYTES = 256 * 1024 * 1024;
/** For the connection to the node, encryption included. */
const CONNECT_TIMEOUT_MS = 5_000;
const UNAUTHORIZED = 401;
/** For a node that sends nothing and takes nothing. */
const SILENCE_TIMEOUT_MS = 60_000;

interface UpstreamExchangeOptions {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** What the caller gets unless the node succeeds. */
  readonly own: ApiError | undefined;
  /** The headers that the node wants, which the caller must not learn from it. */
  readonly sent: NodeMetadata;
  /** Callers had to say who they are, which the node does not know. */
  readonly isPrivate: boolean;
  /** The connection to the node is encrypted. */
  readonly isSecure: boolean;
}

interface UpstreamExchangeDependencies {
  readonly clock: Clock;
  /** Begins a request to the node, over a kept connection unless it must be a new one. */
  readonly open: (isOnNewConnection: boolean) => ClientRequest;
  /** Called once. */
  readonly onEnd: (outcome: ForwardedOutcome) => void;
}

/** One request on its way to a node, and the response on its way back. */
export class UpstreamExchange {
  readonly #options: UpstreamExchangeOptions;
  readonly #dependencies: UpstreamExchangeDependencies;
  readonly #silence: IdleTimeout;
  #upstream: ClientRequest | undefined;
  #connecting: Timer | undefined;
  #isConnected = false;
  #isOver = false;
  /** Whoever waits for the response to begin, or for a refusal. */
  #waiting: { readonly begun: () => void; readonly refused: (error: ApiError) => void } | undefined;

  constructor(options: UpstreamExchangeOptions, dependencies: UpstreamExchangeDependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
    this.#silence = new IdleTimeout(
      { limitMs: SILENCE_TIMEOUT_MS },
      {
        clock: dependencies.clock,
        // The server cuts callers that take nothing.
        isExcused: () => options.response.writableNeedDrain,
        onSilent: () => this.#refuse(silent(), 'overdue'),
      },
    );
  }

  /** Resolves once the response has begun, or the caller has left. Expected errors: ApiError, which the caller is to get. */
  begin(): Promise<void> {
    return new Promise((begun, refused) => {
      this.#waiting = { begun, refused };
      this.#begin();
    });
  }

  #begin(): void {
    const { request, response } = this.#options;
    // The caller left while the index was read.
    if (request.socket.destroyed) {
      this.#end('cancelled');
      return;
    }
    // Nothing moves on the caller's connection while it waits; our own timeouts apply instead.
    response.on('timeout', () => undefined);
    response.once('close', () => {
      if (!response.writableFinished) this.#end('cancelled');
      this.#upstream?.destroy();
    });
    // A POST must not be sent twice, so it does not go over a connection that the node may be closing.
    this.#send({ isOnNewConnection: request.method === 'POST' });
  }

  /** Ends it from our side. */
  cut(): void {
    this.#refuse(this.#unreachable(), 'cancelled');
  }

  #send({ isOnNewConnection }: { readonly isOnNewConnection: boolean }): void {
    const { request, isSecure } = this.#options;
    const upstream = this.#dependencies.open(isOnNewConnection);
    this.#upstream = upstream;
    this.#isConnected = false;
    this.#connecting = this.#dependencies.clock.setTimer(CONNECT_TIMEOUT_MS, () =>
      this.#refuse(this.#unreachable(), 'unreachable'),
    );
    const onConnected = (): void => {
      this.#connecting?.cancel();
      this.#isConnected = true;
      if (!this.#isOver) this.#silence.begin();
    };
    upstream.once('socket', (socket) => {
      if (upstream.reusedSocket) onConnected();
      else socket.once(isSecure ? 'secureConnect' : 'connect', onConnected);
    });
    let hasResponse = false;
    upstream.on('error', (error) => {
      // A response that has begun reports its own end.
      if (hasResponse || this.#isOver || upstream !== this.#upstream) return;
      // The node closed a kept connection just as it was used again: try a new one.
      if (outOfDescriptors(error) !== undefined) this.#refuse(outOfFiles(), 'refused');
      else if (upstream.reusedSocket) this.#send({ isOnNewConnection: true });
      else this.#refuse(this.#unreachable(), this.#isConnected ? 'lost' : 'unreachable');
    });
    upstream.once('response', (response) => {
      hasResponse = true;
      this.#silence.moved();
      this.#pass(response);
    });
    if (request.method !== 'POST') {
      upstream.end();
      return;
    }
    const bounded = atMost(MAX_FORWARDED_BODY_BYTES, () => this.#silence.moved());
    bounded.once('error', () => this.#refuse(forwardedBodyTooLarge(), 'refused'));
    // Not a pipeline, which would hang up on the caller before it gets the outcome.
    request.pipe(bounded).pipe(upstream);
  }

  #pass(from: IncomingMessage): void {
    const { request, response, own, sent, isPrivate } = this.#options;
    const { statusCode = 502, headers } = from;
    if (this.#isOver) return;
    // Only we can do something about the credentials that we sent.
    if (statusCode === UNAUTHORIZED && longestValue(sent) > 0) {
      this.#refuse(refusedUs(), 'failed');
      return;
    }
    if (own !== undefined && statusCode >= 400) {
      // Read to its end, so that the connection can be kept.
      from.on('error', () => undefined).resume();
      this.#waiting?.refused(own);
      this.#end('missed');
      return;
    }
    // Which pages may read the response is our decision, not the node's.
    const kept = Object.entries(passedOn(headers)).filter(([name]) => !name.startsWith('access-control-'));
    const given = variedBy(headers.vary, response.getHeader('vary'));
    const vary = isPrivate ? variedBy('authorization', given) : given;
    response.writeHead(statusCode, {
      ...Object.fromEntries(kept.map(([name, value]) => [name, masked(value, sent)])),
      via: viaOf(headers),
      ...(vary === '' ? {} : { vary }),
      ...(isPrivate ? { 'cache-control': privately(headers['cache-control']) } : {}),
      // The rest of an unfinished request is not read: its connection ends with the response.
      ...(request.complete ? {} : { connection: 'close' }),
    });
    this.#waiting?.begun();
    const bounded = atMost(MAX_RESPONSE_BYTES, () => this.#silence.moved(), sent);
    from.once('error', () => this.#end('lost'));
    bounded.once('error', () => this.#end('failed'));
    pipeline(from, bounded, response, (error) => {
      if (error instanceof Error) this.#end('cancelled');
      else this.#end(statusCode < 400 ? 'answered' : 'failed');
      this.#upstream?.destroy();
    });
  }

  #refuse(error: ApiError, outcome: ForwardedOutcome): void {
    if (this.#isOver) return;
    const { own, response } = this.#options;
    // A response that has begun can only be cut off.
    if (response.headersSent) response.destroy();
    else this.#waiting?.refused(own ?? error);
    this.#end(outcome);
    this.#upstream?.destroy();
  }

  #end(outcome: ForwardedOutcome): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#connecting?.cancel();
    this.#silence.end();
    this.#waiting?.begun();
    this.#dependencies.onEnd(outcome);
  }

  #unreachable(): ApiError {
    const message =
      this.#options.request.method === 'POST'
        ? 'this request is forwarded, and the access node could not be reached or broke off: whether it accepted a transaction is unknown'
        : 'this request is forwarded, but the access node cannot be reached now; indexed data is still served';
    return new ApiError(503, 'upstream_unreachable', message);
  }
}

/** Passes bytes on, and fails when there are more. `secrets`: values that they must not hold, even across chunks. */
function atMost(maxBytes: number, onMoved: () => void, secrets: NodeMetadata = {}): Transform {
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

function masked(value: string | string[] | undefined, sent: NodeMetadata): string | string[] | undefined {
  if (Array.isArray(value)) return value.map((each) => withoutValues(each, sent));
  return value === undefined ? undefined : withoutValues(value, sent);
}

function refusedUs(): ApiError {
  const message =
    'this request is forwarded, but the access node refuses what this indexer identifies itself with (access.metadataFile): tell its operator';
  return new ApiError(503, 'upstream_refusing', message);
}

function silent(): ApiError {
  const message = `the access node that this was forwarded to was silent for ${SILENCE_TIMEOUT_MS / 1_000} s`;
  return new ApiError(504, 'overdue', message);
}
