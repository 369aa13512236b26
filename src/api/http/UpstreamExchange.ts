import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { pipeline, Transform } from 'node:stream';
import type { Clock, Timer } from '../../runtime/index.js';
import { variedBy } from './ResponseWriter.js';
import { ApiError } from '../view/ApiError.js';
import type { ForwardedOutcome } from '../limits/ForwardingMetrics.js';
import { forwardedBodyTooLarge, writeRefusal } from './refusals.js';
import { IdleTimeout } from './IdleTimeout.js';

/** A transaction of 1.5 MB is 2 MB in base64. */
export const MAX_FORWARDED_BODY_BYTES = 4 * 1024 * 1024;
/** A larger answer is cut off. It is streamed: nothing of this size lies here. */
const MAX_ANSWER_BYTES = 256 * 1024 * 1024;
/** For the connection to the node, encryption included. */
const CONNECT_TIMEOUT_MS = 5_000;
/** For a node from which nothing comes, and which takes nothing. */
const SILENCE_TIMEOUT_MS = 60_000;

export interface UpstreamExchangeOptions {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Told to the caller unless the node has an answer. */
  readonly own: ApiError | undefined;
  /** Whether a connection to the node is ready only when it is encrypted. */
  readonly isSecure: boolean;
  /** What becomes of the headers of the node's answer. */
  readonly marks: (headers: IncomingHttpHeaders) => IncomingHttpHeaders;
}

export interface UpstreamExchangeDependencies {
  readonly clock: Clock;
  /** Begins a request to the node, over a kept connection unless it has to be a new one. */
  readonly open: (isOnNewConnection: boolean) => ClientRequest;
  /** Told once, last. */
  readonly onEnd: (outcome: ForwardedOutcome) => void;
}

/** One request on its way to a node, and the answer on its way back. */
export class UpstreamExchange {
  readonly #options: UpstreamExchangeOptions;
  readonly #dependencies: UpstreamExchangeDependencies;
  readonly #silence: IdleTimeout;
  #upstream: ClientRequest | undefined;
  #connecting: Timer | undefined;
  #isConnected = false;
  #isOver = false;

  constructor(options: UpstreamExchangeOptions, dependencies: UpstreamExchangeDependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
    this.#silence = new IdleTimeout(
      { limitMs: SILENCE_TIMEOUT_MS },
      {
        clock: dependencies.clock,
        // A caller who takes nothing is somebody else's affair: the server cuts it.
        isExcused: () => options.response.writableNeedDrain,
        onSilent: () => this.#refuse(silent(), 'overdue'),
      },
    );
  }

  begin(): void {
    const { request, response } = this.#options;
    if (request.socket.destroyed) {
      // The caller left while the index was asked.
      this.#end('cancelled');
      return;
    }
    // While the caller waits nothing moves on its connection, and how long it may wait is said here.
    response.on('timeout', () => undefined);
    response.once('close', () => {
      if (!response.writableFinished) this.#end('cancelled');
      this.#upstream?.destroy();
    });
    // What must not arrive twice goes over a connection that nobody is about to close.
    this.#send({ isOnNewConnection: request.method === 'POST' });
  }

  /** Ends it from here. */
  cut(): void {
    this.#refuse(unreachable(this.#options.request.method), 'cancelled');
  }

  #send({ isOnNewConnection }: { readonly isOnNewConnection: boolean }): void {
    const { request, isSecure } = this.#options;
    const { clock, open } = this.#dependencies;
    const upstream = open(isOnNewConnection);
    this.#upstream = upstream;
    this.#isConnected = false;
    const onReady = (): void => {
      this.#connecting?.cancel();
      this.#isConnected = true;
      if (!this.#isOver) this.#silence.begin();
    };
    this.#connecting = clock.setTimer(CONNECT_TIMEOUT_MS, () =>
      this.#refuse(unreachable(request.method), 'unreachable'),
    );
    upstream.once('socket', (socket) => {
      if (upstream.reusedSocket) onReady();
      else socket.once(isSecure ? 'secureConnect' : 'connect', onReady);
    });
    let isAnswered = false;
    upstream.on('error', () => {
      // An answer that has begun tells itself whether it came to its end.
      if (isAnswered || this.#isOver || upstream !== this.#upstream) return;
      // The node closed a kept connection in the moment in which it was used again: that says nothing.
      if (upstream.reusedSocket) this.#send({ isOnNewConnection: true });
      else this.#refuse(unreachable(request.method), this.#isConnected ? 'lost' : 'unreachable');
    });
    upstream.once('response', (answer) => {
      isAnswered = true;
      this.#silence.moved();
      this.#answer(answer);
    });
    if (request.method === 'POST') this.#sendBody(upstream);
    else upstream.end();
  }

  #sendBody(upstream: ClientRequest): void {
    const tooLarge = forwardedBodyTooLarge(MAX_FORWARDED_BODY_BYTES);
    const bounded = atMost(MAX_FORWARDED_BODY_BYTES, () => this.#silence.moved());
    bounded.once('error', () => this.#refuse(tooLarge, 'refused'));
    // No pipeline: it would hang up on the caller, who is yet to be told what became of the request.
    this.#options.request.pipe(bounded).pipe(upstream);
  }

  #answer(answer: IncomingMessage): void {
    const { request, response, own, marks } = this.#options;
    const { statusCode = 502, headers } = answer;
    if (this.#isOver) return;
    if (own !== undefined && statusCode >= 400) {
      // The little that comes is taken, so that the connection can be kept.
      answer.on('error', () => undefined).resume();
      this.#tell(own);
      this.#end('missed');
      return;
    }
    // What the caller may still be sending is read by nobody: the connection ends with the answer.
    const vary = variedBy(headers.vary, response.getHeader('vary'));
    response.writeHead(statusCode, {
      ...marks(headers),
      ...(vary === '' ? {} : { vary }),
      ...(request.complete ? {} : { connection: 'close' }),
    });
    const bounded = atMost(MAX_ANSWER_BYTES, () => this.#silence.moved());
    answer.once('error', () => this.#end('lost'));
    bounded.once('error', () => this.#end('failed'));
    pipeline(answer, bounded, response, (error) => {
      const isWhole = !(error instanceof Error);
      this.#end(!isWhole ? 'cancelled' : statusCode < 400 ? 'answered' : 'failed');
      this.#upstream?.destroy();
    });
  }

  #refuse(error: ApiError, outcome: ForwardedOutcome): void {
    if (this.#isOver) return;
    this.#tell(this.#options.own ?? error);
    this.#end(outcome);
    this.#upstream?.destroy();
  }

  /** Where the answer has begun, all that can be said is that it is not whole. */
  #tell(error: ApiError): void {
    const { request, response } = this.#options;
    if (response.headersSent) response.destroy();
    else writeRefusal(response, error, { isBodyUnread: !request.complete });
  }

  #end(outcome: ForwardedOutcome): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#connecting?.cancel();
    this.#silence.end();
    this.#dependencies.onEnd(outcome);
  }
}

/** Passes bytes on, and fails with what exceeds the bound. */
function atMost(maxBytes: number, onMoved: () => void): Transform {
  let bytes = 0;
  return new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      bytes += chunk.length;
      onMoved();
      if (bytes <= maxBytes) done(null, chunk);
      else done(new Error('more bytes than are passed on'));
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
