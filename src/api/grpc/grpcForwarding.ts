import { Metadata, status, type sendUnaryData, type StatusObject } from '@grpc/grpc-js';
import type { ServerUnaryCall, ServerWritableStream } from '@grpc/grpc-js';
import type { Forwarder, ForwarderSink, ForwardOutcome, StreamCall } from '../../access/index.js';
import { AbortError, childOf, isAbort, unlessAborted, type Clock } from '../../runtime/index.js';
import { SEND_LIMIT_MS } from '../feed/changeFeed.js';
import { whenTaken } from '../feed/following.js';
import { forwardCounter, type ForwardedOutcome, type ForwardMetrics } from '../limits/counters.js';
import { circleRefusal, OF_ONE_CONNECTION, PROGRAM } from '../limits/hops.js';
import { places } from '../../runtime/index.js';
import { ApiError, busy, indexerSilent, isElsewhere, stopping } from '../view/ApiError.js';
import type { DuplexCall } from './calls/calls.js';
import type { GrpcApiServer } from './GrpcApiServer.js';
import { refusalOf } from './refusals.js';

/** Limit of a forwarded request, as on access nodes. The largest transaction has 1.5 MB. */
export const MAX_FORWARDED_REQUEST_BYTES = 4 * 1024 * 1024;
/** For a forwarded request to arrive completely, as over HTTP. */
const REQUEST_TIMEOUT_MS = 15_000;
/** Concurrent forwarded calls with a single response. */
const MAX_CALLS = 100;
export const MAX_FORWARDED_STREAMS = 100;
/** Forwarded requests received at once; further ones wait with their callers. */
const MAX_RECEIVED = 32;
/** For a forwarded call with a single response, as for every call. */
const CALL_LIMIT_MS = 120_000;
/** Prefix of the calls that the index shares with access nodes. */
const OF_FLOW = '/flow.access.';

/** The others concern one program or one encoding, ours or the node's. */
const NOT_PASSED_ON = [
  ...OF_ONE_CONNECTION,
  ...['user-agent', 'content-type', 'content-length', 'accept-encoding', 'date', 'server'],
  ...['grpc-timeout', 'grpc-encoding', 'grpc-accept-encoding', 'grpc-status', 'grpc-message'],
];
/** In the metadata of every call to a node, and of its response. */
const VIA = `2.0 ${PROGRAM}`;

/** A forwarded call, unary or streaming. */
interface ForwardedCall {
  readonly call: DuplexCall | ServerWritableStream<Buffer, Buffer> | ServerUnaryCall<Buffer, Buffer>;
  /** Aborts once the call is over, however it ended. */
  readonly signal: AbortSignal;
  /** `onTaken` is called when the message has left, but not if the call is over first. */
  readonly send: (message: Buffer, onTaken: () => void) => void;
  readonly end: (end: StatusObject) => void;
}

/** True for calls with more than one response message. */
export function isStream(path: string): boolean {
  return /\/(?:SendAnd)?Subscribe[^/]*$/.test(path);
}

export type GrpcForwarding = ReturnType<typeof grpcForwarding>;

/** Forwards calls to the access nodes unchanged, and the responses back. */
export function grpcForwarding(
  server: GrpcApiServer,
  parts: {
    readonly forwarder: Pick<Forwarder, 'forward'>;
    readonly clock: Clock;
    readonly metrics: ForwardMetrics;
  },
) {
  const { clock, forwarder } = parts;
  const received = places(MAX_RECEIVED);
  const counts = forwardCounter('grpc', parts);
  const streams = new Set<ForwardedCall>();
  const calls = new Set<ForwardedCall>();
  let isClosed = false;

  /** Forwards a call. `own`: the index's refusal, which the caller gets unless a node succeeds. */
  const pass = async (
    { call: caller, signal, send, end }: ForwardedCall,
    message: Buffer,
    own: ApiError | undefined,
  ): Promise<ForwardedOutcome> => {
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
    const giveUp = (outcome: ForwardedOutcome, why: ApiError): void => {
      ended = outcome;
      end(refusalOf(why));
      over.abort(new AbortError());
    };
    const sink: ForwarderSink = {
      onCall: (begun) => {
        call = begun;
        call.read();
      },
      onMetadata: (given) => {
        headers = given;
        if (own === undefined) begin();
      },
      onMessage: (given) => {
        let letGo: (() => void) | undefined;
        try {
          letGo = server.hold(given.length);
        } catch (error) {
          if (!(error instanceof ApiError)) throw error;
          giveUp('busy', error);
          return;
        }
        const untaken = `the caller did not accept a message for ${SEND_LIMIT_MS / 1_000} s`;
        const late = isLasting
          ? clock.setTimer(SEND_LIMIT_MS, () => giveUp('overdue', new ApiError(408, 'overdue', untaken)))
          : undefined;
        const release = (): void => {
          late?.cancel();
          letGo?.();
        };
        if (signal.aborted) release();
        else signal.addEventListener('abort', release, { once: true });
        begin();
        send(given, () => {
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
    const deadlineMs = Math.min(Number(caller.getDeadline()), limitMs);
    const outcome = await forwarder.forward(
      { path, message, metadata: marked(caller.metadata), deadlineMs, isStream: isLasting },
      sink,
      { signal: over.signal, isRepeatable: !/\/Send[^/]*$/.test(path) },
    );
    if (outcome === 'ended') return ended;
    end(refusalOf(own ?? refusals[outcome]()));
    return outcome;
  };

  /** Forwards a call unless there are too many, counts it, and ends it with what was thrown. */
  const run = async (
    forwarded: ForwardedCall,
    request: () => Buffer | Promise<Buffer>,
    own?: ApiError,
  ): Promise<void> => {
    const path = forwarded.call.getPath();
    // Bounded: only known methods come here.
    const method = path.slice(path.lastIndexOf('/') + 1);
    const isLasting = isStream(path);
    const [open, bound, what] = isLasting
      ? [streams, MAX_FORWARDED_STREAMS, 'streams']
      : [calls, MAX_CALLS, 'calls'];
    const circle = circleRefusal(forwarded.call.metadata.get('via').join());
    const refusal = isClosed ? stopping() : circle;
    if (refusal !== undefined || open.size >= bound) {
      counts.turnedAway(method, refusal === undefined ? 'busy' : 'refused');
      const tooMany = busy(`at most ${bound} ${what} are forwarded at once; retry`);
      forwarded.end(refusalOf(own ?? refusal ?? tooMany));
      return;
    }
    open.add(forwarded);
    const end = counts.begin(method, isLasting ? 'stream' : 'call');
    try {
      end(await pass(forwarded, await request(), own));
    } catch (error) {
      end(isAbort(error) ? 'cancelled' : 'refused');
      if (!isAbort(error)) forwarded.end(server.refusalFor(error));
    } finally {
      open.delete(forwarded);
    }
  };

  /** A call that may have several response messages. */
  const streamOf = (call: DuplexCall | ServerWritableStream<Buffer, Buffer>): ForwardedCall => ({
    call,
    signal: endOf(call),
    send: (message, onTaken) => void call.write(message, whenTaken(onTaken)),
    end: (end) => server.endStream(call, end),
  });

  return {
    /** True if a call that the index refused with this error may be forwarded. */
    takes: (call: ForwardedCall['call'], error: unknown): error is ApiError =>
      server.guard.mayForward(call.metadata) && call.getPath().startsWith(OF_FLOW) && isElsewhere(error),

    /** A call that the index does not serve. */
    serve: (call: DuplexCall): void => {
      const forwarded = streamOf(call);
      const { signal } = forwarded;
      void run(forwarded, () => received(() => readRequest(call, { clock, signal }), signal));
    },

    serveRefusedStream: (call: ServerWritableStream<Buffer, Buffer>): void => {
      void run(streamOf(call), () => call.request);
    },

    /**
     * A call that the index refused. Unless calls of its kind are not served at all, the caller gets the index's refusal
     * when no node succeeds. Its response is held until its final status is known.
     */
    serveRefused: (
      call: ServerUnaryCall<Buffer, Buffer>,
      callback: sendUnaryData<Buffer>,
      refusal: ApiError,
    ): void => {
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
      void run(forwarded, () => call.request, refusal.reason === 'not_served' ? undefined : refusal);
    },

    /** Ends every stream. Calls with a single response are left to the server. */
    close: (): void => {
      isClosed = true;
      for (const { end } of [...streams]) end(refusalOf(stopping()));
    },
  };
}

function endOf(call: {
  readonly cancelled: boolean;
  once(event: 'cancelled', listener: () => void): unknown;
}): AbortSignal {
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

/** Metadata, marked as having come through here. */
function marked(metadata: Metadata): Metadata {
  const copy = passedOn(metadata);
  copy.add('via', VIA);
  return copy;
}

/** The single request of a call. Expected errors: ApiError (bad_request, overdue); AbortError when the call is over first. */
async function readRequest(
  call: DuplexCall,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Buffer> {
  const received = await unlessAborted<Buffer | ApiError>(signal, (settle) => {
    let messages = 0;
    call.on('data', (message: Buffer) => {
      messages += 1;
      settle(message);
      if (messages > 1) call.emit('error', refusalOf(notOne('more than one message')));
    });
    call.on('end', () => settle(notOne('no message')));
    const message = `the request did not arrive within ${REQUEST_TIMEOUT_MS / 1_000} s`;
    const timer = clock.setTimer(REQUEST_TIMEOUT_MS, () => settle(new ApiError(408, 'overdue', message)));
    return () => timer.cancel();
  });
  if (received instanceof ApiError) throw received;
  return received;
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
  busy: () =>
    busy(
      'this call is forwarded, but the access nodes accept no more of its kind now (access.ratePerSecond, or their own limits); retry',
    ),
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
