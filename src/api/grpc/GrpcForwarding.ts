import { Metadata, status } from '@grpc/grpc-js';
import type { sendUnaryData, ServerDuplexStream, ServerUnaryCall, ServerWritableStream } from '@grpc/grpc-js';
import type { Forwarder, ForwarderSink, ForwardOutcome, StreamCall } from '../../access/index.js';
import { AbortError, childOf, isAbort } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { forwardCounter } from '../limits/counters.js';
import type { ForwardCounter, ForwardedOutcome, ForwardMetrics } from '../limits/counters.js';
import type { Held, HeldBytes } from '../limits/HeldBytes.js';
import { places } from '../limits/places.js';
import { ApiError, indexerSilent, isElsewhere, stopping } from '../view/ApiError.js';
import { refusalOf } from './refusals.js';
import type { CallRefusal } from './refusals.js';

/** Limit of a forwarded request, as on access nodes. The largest transaction has 1.5 MB. */
export const MAX_FORWARDED_REQUEST_BYTES = 4 * 1024 * 1024;
/** For a forwarded request to arrive completely, as over HTTP. */
const REQUEST_TIMEOUT_MS = 15_000;
/** Concurrent forwarded calls with a single response. */
const MAX_CALLS = 100;
/** Concurrent forwarded streams. */
const MAX_STREAMS = 100;
/** Forwarded requests received at once; further ones wait with their callers. */
const MAX_RECEIVED = 32;
/** For a forwarded call with a single response, as for every call. */
const CALL_LIMIT_MS = 120_000;
/** Prefix of the calls that the index shares with access nodes. */
const OF_FLOW = '/flow.access.';

/** These concern one connection or one encoding, ours or the node's. */
const NOT_PASSED_ON = [
  ...['user-agent', 'content-type', 'content-length', 'te', 'trailer', 'accept-encoding', 'host', 'date'],
  ...['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade', 'server'],
  ...['grpc-timeout', 'grpc-encoding', 'grpc-accept-encoding', 'grpc-status', 'grpc-message'],
];
/** In the metadata of every response that came from a node. */
const VIA = '2.0 flow-collection-indexer';

interface GrpcForwardingDependencies {
  readonly forwarder: Pick<Forwarder, 'forward'>;
  readonly held: HeldBytes;
  readonly clock: Clock;
  /** Absent: forwarded calls are not counted. */
  readonly metrics?: ForwardMetrics | undefined;
  /** The status for an error that a call threw. */
  readonly explain: (error: unknown) => CallRefusal;
}

type DuplexCall = ServerDuplexStream<Buffer, Buffer>;
type AnyCall = DuplexCall | ServerWritableStream<Buffer, Buffer> | ServerUnaryCall<Buffer, Buffer>;

/** A forwarded call, unary or streaming. */
interface ForwardedCall {
  readonly call: AnyCall;
  /** Aborts once the call is over, however it ended. */
  readonly signal: AbortSignal;
  /** `onTaken` is called when the message has left, but not if the call is over first. */
  readonly send: (message: Buffer, onTaken: () => void) => void;
  readonly end: (end: CallRefusal) => void;
}

/** True for calls with more than one response message. */
export function isStream(path: string): boolean {
  return /\/(?:SendAnd)?Subscribe[^/]*$/.test(path);
}

/** Forwards calls to the access nodes unchanged, and the responses back. */
export class GrpcForwarding {
  readonly #dependencies: GrpcForwardingDependencies;
  readonly #received = places(MAX_RECEIVED);
  readonly #counts: ForwardCounter;
  readonly #streams = new Set<ForwardedCall>();
  #calls = 0;
  #isClosed = false;

  constructor(dependencies: GrpcForwardingDependencies) {
    this.#dependencies = dependencies;
    this.#counts = forwardCounter('grpc', dependencies);
  }

  /** True when a node may be able to serve a call that ended this way. */
  takes(path: string, error: unknown): error is ApiError {
    return path.startsWith(OF_FLOW) && isElsewhere(error);
  }

  /** A call that the index does not serve. */
  serve(call: DuplexCall): void {
    const forwarded = streamOf(call);
    const { clock } = this.#dependencies;
    const read = (): Promise<Buffer> => readRequest(call, { clock, signal: forwarded.signal });
    void this.#run(forwarded, () => this.#received(read, forwarded.signal));
  }

  serveRefusedStream(call: ServerWritableStream<Buffer, Buffer>): void {
    void this.#run(streamOf(call), () => call.request);
  }

  /**
   * A call that the index refused. Unless calls of its kind are not served at all, the caller gets the index's refusal
   * when no node succeeds. Its response is held until its final status is known.
   */
  serveRefused(
    call: ServerUnaryCall<Buffer, Buffer>,
    callback: sendUnaryData<Buffer>,
    refusal: ApiError,
  ): void {
    let response: Buffer | undefined;
    const forwarded: ForwardedCall = {
      call,
      signal: endOf(call),
      send: (message, onTaken) => {
        response = message;
        onTaken();
      },
      end: (end) => {
        if (end.code === status.OK && response !== undefined) callback(null, response, end.metadata);
        else callback(end);
      },
    };
    const own = refusal.reason === 'not_served' ? undefined : refusal;
    void this.#run(forwarded, () => call.request, own);
  }

  /** Ends every stream. Calls with a single response are left to the server. */
  close(): void {
    this.#isClosed = true;
    for (const { end } of [...this.#streams]) end(refusalOf(stopping()));
  }

  /** Forwards a call unless there are too many, counts it, and ends it with what was thrown. */
  async #run(
    forwarded: ForwardedCall,
    request: () => Buffer | Promise<Buffer>,
    own?: ApiError,
  ): Promise<void> {
    const path = forwarded.call.getPath();
    const isLasting = isStream(path);
    // Bounded: only known methods come here.
    const method = path.slice(path.lastIndexOf('/') + 1);
    const refusal = this.#refusalOf(isLasting);
    if (refusal !== undefined) {
      this.#counts.turnedAway(method, refusal.reason === 'busy' ? 'busy' : 'refused');
      forwarded.end(refusalOf(own ?? refusal));
      return;
    }
    if (isLasting) this.#streams.add(forwarded);
    else this.#calls += 1;
    const end = this.#counts.begin(method, isLasting ? 'stream' : 'call');
    try {
      end(await this.#pass(forwarded, await request(), own));
    } catch (error) {
      end(isAbort(error) ? 'cancelled' : 'refused');
      if (!isAbort(error)) forwarded.end(this.#dependencies.explain(error));
    } finally {
      if (isLasting) this.#streams.delete(forwarded);
      else this.#calls -= 1;
    }
  }

  #refusalOf(isLasting: boolean): ApiError | undefined {
    if (this.#isClosed) return stopping();
    const [open, bound, what] = isLasting
      ? [this.#streams.size, MAX_STREAMS, 'streams']
      : [this.#calls, MAX_CALLS, 'calls'];
    if (open < bound) return undefined;
    return new ApiError(503, 'busy', `at most ${bound} ${what} are forwarded at once; retry`);
  }

  async #pass(
    { call: caller, signal, send, end }: ForwardedCall,
    message: Buffer,
    own: ApiError | undefined,
  ): Promise<ForwardedOutcome> {
    const { clock, forwarder, held } = this.#dependencies;
    const path = caller.getPath();
    const isLasting = isStream(path);
    const limitMs = isLasting ? Infinity : clock.now() + CALL_LIMIT_MS;
    const over = childOf(signal);
    let ended: ForwardedOutcome = 'cancelled';
    let call: StreamCall | undefined;
    /** The node's headers, passed on once it is certain that the caller gets the node's response. */
    let headers = new Metadata();
    let isBegun = false;
    const begin = (): void => {
      if (!isBegun) caller.sendMetadata(marked(headers));
      isBegun = true;
    };
    const sink: ForwarderSink = {
      onCall: (begun) => {
        call = begun;
        call.read();
      },
      onMetadata: (received) => {
        headers = received;
        if (own === undefined) begin();
      },
      onMessage: (received) => {
        let holding: Held | undefined;
        try {
          holding = held.hold(received.length);
        } catch (error) {
          if (!(error instanceof ApiError)) throw error;
          ended = 'busy';
          end(refusalOf(error));
          over.abort(new AbortError());
          return;
        }
        const release = (): void => holding?.release();
        if (signal.aborted) release();
        else signal.addEventListener('abort', release, { once: true });
        begin();
        send(received, () => {
          if (isLasting) {
            signal.removeEventListener('abort', release);
            release();
          }
          call?.read();
        });
      },
      onEnd: ({ code, details, metadata }) => {
        ended = outcomeOf(code, own);
        if (own !== undefined && code !== status.OK) end(refusalOf(own));
        else end({ code, details, metadata: isBegun ? passedOn(metadata) : marked(metadata) });
      },
    };
    const outcome = await forwarder.forward(
      {
        path,
        message,
        metadata: passedOn(caller.metadata),
        deadlineMs: Math.min(Number(caller.getDeadline()), limitMs),
        isStream: isLasting,
      },
      sink,
      { signal: over.signal, isRepeatable: !/\/Send[^/]*$/.test(path) },
    );
    if (outcome === 'ended') return ended;
    end(refusalOf(own ?? refusals[outcome]()));
    return outcome;
  }
}

/** A call that may have several response messages. */
function streamOf(call: DuplexCall | ServerWritableStream<Buffer, Buffer>): ForwardedCall {
  return {
    call,
    signal: endOf(call),
    send: (message, onTaken) => {
      call.write(message, (error: unknown) => {
        // A failed write ends the call, so no next message is needed.
        if (error === null || error === undefined) onTaken();
      });
    },
    end: (end) => {
      if (end.code === status.OK) call.end(end.metadata);
      else call.emit('error', end);
    },
  };
}

function endOf(
  call: Pick<AnyCall, 'cancelled'> & { once(event: 'cancelled', listener: () => void): unknown },
): AbortSignal {
  const over = new AbortController();
  if (call.cancelled) over.abort(new AbortError());
  else call.once('cancelled', () => over.abort(new AbortError()));
  return over.signal;
}

/** Metadata without what concerns one connection only. */
function passedOn(metadata: Metadata): Metadata {
  const copy = metadata.clone();
  for (const key of NOT_PASSED_ON) copy.remove(key);
  return copy;
}

/** A node's metadata, marked as having come through here. */
function marked(metadata: Metadata): Metadata {
  const copy = passedOn(metadata);
  copy.add('via', VIA);
  return copy;
}

/** The single request of a call. Expected errors: ApiError (bad_request, overdue); AbortError when the call is over first. */
function readRequest(
  call: DuplexCall,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(new AbortError());
      return;
    }
    const fail = (error: Error): void => {
      timer.cancel();
      reject(error);
    };
    const timer = clock.setTimer(REQUEST_TIMEOUT_MS, () => {
      const seconds = REQUEST_TIMEOUT_MS / 1_000;
      reject(new ApiError(408, 'overdue', `the request did not arrive within ${seconds} s`));
    });
    signal.addEventListener('abort', () => fail(new AbortError()), { once: true });
    let messages = 0;
    call.on('data', (message: Buffer) => {
      messages += 1;
      timer.cancel();
      resolve(message);
      if (messages > 1) call.emit('error', refusalOf(notOne('more than one message')));
    });
    call.on('end', () => fail(notOne('no message')));
  });
}

function notOne(what: string): ApiError {
  return new ApiError(400, 'bad_request', `the call sent ${what}; it takes exactly one`);
}

const refusals: Readonly<Record<Exclude<ForwardOutcome, 'ended'>, () => ApiError>> = {
  unreachable: () =>
    upstreamUnreachable('but no access node can be reached now; indexed data is still served'),
  lost: () =>
    upstreamUnreachable(
      'but the connection to the access node was lost, and whether it accepted the transaction is unknown; look up its id before sending it again',
    ),
  busy: () => {
    const message =
      'this call is forwarded, but the access nodes accept no more of its kind now (access.ratePerSecond, or their own limits); retry';
    return new ApiError(503, 'busy', message);
  },
  silent: indexerSilent,
};

function upstreamUnreachable(why: string): ApiError {
  return new ApiError(503, 'upstream_unreachable', `this call is forwarded, ${why}`);
}

/** The outcome of a call that a node, or the connection to it, ended with this code. */
function outcomeOf(code: status, own: ApiError | undefined): ForwardedOutcome {
  if (code === status.OK) return 'answered';
  if (code === status.DEADLINE_EXCEEDED) return 'overdue';
  return own === undefined ? 'failed' : 'missed';
}
