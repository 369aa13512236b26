import { Metadata, status } from '@grpc/grpc-js';
import type { sendUnaryData, ServerDuplexStream, ServerUnaryCall, ServerWritableStream } from '@grpc/grpc-js';
import type { Forwarder, ForwarderSink, ForwardOutcome, StreamCall } from '../../../access/index.js';
import { AbortError, childOf, isAbort } from '../../../runtime/index.js';
import type { Clock } from '../../../runtime/index.js';
import { ForwardingMetrics } from '../../limits/ForwardingMetrics.js';
import type { ForwardedOutcome, ForwardMetrics } from '../../limits/ForwardingMetrics.js';
import type { Held, HeldBytes } from '../../limits/HeldBytes.js';
import { places } from '../../limits/places.js';
import { ApiError, indexerSilent, isElsewhere, stopping } from '../../view/ApiError.js';
import { marked, passedOn, readRequest, streamCaller, unaryCaller } from './forwardingCallers.js';
import type { ForwardedCaller } from './forwardingCallers.js';
import { refusalOf } from '../refusals.js';
import type { CallRefusal } from '../refusals.js';

/** Limit of a forwarded request, as on access nodes. The largest transaction has 1.5 MB. */
export const MAX_FORWARDED_REQUEST_BYTES = 4 * 1024 * 1024;
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

export interface GrpcForwardingDependencies {
  readonly forwarder: Pick<Forwarder, 'forward'>;
  readonly held: HeldBytes;
  readonly clock: Clock;
  /** Absent: forwarded calls are not counted. */
  readonly metrics?: ForwardMetrics | undefined;
  /** The status for an error that a call threw. */
  readonly explain: (error: unknown) => CallRefusal;
}

/** True for calls with more than one response message. */
export function isStream(path: string): boolean {
  return /\/(?:SendAnd)?Subscribe[^/]*$/.test(path);
}

/** Forwards calls to the access nodes unchanged, and the responses back. */
export class GrpcForwarding {
  readonly #dependencies: GrpcForwardingDependencies;
  readonly #received = places(MAX_RECEIVED);
  readonly #counts: ForwardingMetrics;
  readonly #streams = new Set<ForwardedCaller>();
  #calls = 0;
  #isClosed = false;

  constructor(dependencies: GrpcForwardingDependencies) {
    this.#dependencies = dependencies;
    this.#counts = new ForwardingMetrics({ protocol: 'grpc' }, dependencies);
  }

  /** True when a node may be able to serve a call that ended this way. */
  takes(path: string, error: unknown): error is ApiError {
    return path.startsWith(OF_FLOW) && isElsewhere(error);
  }

  /** A call that the index does not serve. */
  serve(call: ServerDuplexStream<Buffer, Buffer>): void {
    const caller = streamCaller(call);
    const { clock } = this.#dependencies;
    const read = (): Promise<Buffer> => readRequest(call, { clock, signal: caller.signal });
    void this.#run(caller, () => this.#received(read, caller.signal));
  }

  /**
   * A call that the index refused. Unless calls of its kind are not served at all, the caller gets the index's refusal
   * when no node succeeds.
   */
  serveRefused(
    call: ServerUnaryCall<Buffer, Buffer>,
    callback: sendUnaryData<Buffer>,
    refusal: ApiError,
  ): void {
    const own = refusal.reason === 'not_served' ? undefined : refusal;
    void this.#run(unaryCaller(call, callback), () => call.request, own);
  }

  serveRefusedStream(call: ServerWritableStream<Buffer, Buffer>): void {
    void this.#run(streamCaller(call), () => call.request);
  }

  /** Ends every stream. Calls with a single response are left to the server. */
  close(): void {
    this.#isClosed = true;
    for (const caller of [...this.#streams]) caller.end(refusalOf(stopping()));
  }

  /** Forwards a call unless there are too many, counts it, and ends it with what was thrown. */
  async #run(
    caller: ForwardedCaller,
    request: () => Buffer | Promise<Buffer>,
    own?: ApiError,
  ): Promise<void> {
    const isLasting = isStream(caller.path);
    // Bounded: only known methods come here.
    const method = caller.path.slice(caller.path.lastIndexOf('/') + 1);
    const refusal = this.#refusalOf(isLasting);
    if (refusal !== undefined) {
      this.#counts.turnedAway(method, refusal.reason === 'busy' ? 'busy' : 'refused');
      caller.end(refusalOf(own ?? refusal));
      return;
    }
    if (isLasting) this.#streams.add(caller);
    else this.#calls += 1;
    const end = this.#counts.begin(method, isLasting ? 'stream' : 'call');
    try {
      end(await this.#pass(caller, await request(), own));
    } catch (error) {
      end(isAbort(error) ? 'cancelled' : 'refused');
      if (!isAbort(error)) caller.end(this.#dependencies.explain(error));
    } finally {
      if (isLasting) this.#streams.delete(caller);
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
    caller: ForwardedCaller,
    message: Buffer,
    own: ApiError | undefined,
  ): Promise<ForwardedOutcome> {
    const { clock, forwarder, held } = this.#dependencies;
    const { path, metadata, signal } = caller;
    const isLasting = isStream(path);
    const deadlineMs = isLasting
      ? caller.deadlineMs
      : Math.min(caller.deadlineMs, clock.now() + CALL_LIMIT_MS);
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
          caller.end(refusalOf(error));
          over.abort(new AbortError());
          return;
        }
        const release = (): void => holding?.release();
        if (signal.aborted) release();
        else signal.addEventListener('abort', release, { once: true });
        begin();
        caller.send(received, () => {
          if (isLasting) {
            signal.removeEventListener('abort', release);
            release();
          }
          call?.read();
        });
      },
      onEnd: ({ code, details, metadata: received }) => {
        ended = outcomeOf(code, own);
        if (own !== undefined && code !== status.OK) caller.end(refusalOf(own));
        else caller.end({ code, details, metadata: isBegun ? passedOn(received) : marked(received) });
      },
    };
    const outcome = await forwarder.forward(
      { path, message, metadata, deadlineMs, isStream: isLasting },
      sink,
      { signal: over.signal, isRepeatable: !/\/Send[^/]*$/.test(path) },
    );
    if (outcome === 'ended') return ended;
    caller.end(refusalOf(own ?? refusals[outcome]()));
    return outcome;
  }
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
