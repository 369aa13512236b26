import { Metadata, status } from '@grpc/grpc-js';
import type { sendUnaryData, ServerDuplexStream, ServerUnaryCall, ServerWritableStream } from '@grpc/grpc-js';
import type {
  ForwardedCall,
  ForwardedRequest,
  Forwarder,
  ForwarderSink,
  ForwardOutcome,
} from '../../access/index.js';
import type { Clock } from '../../runtime/index.js';
import { AbortError, isAbort } from '../../runtime/index.js';
import { ApiError, indexerSilent, isElsewhere, stopping } from '../view/ApiError.js';
import { ForwardingMetrics } from '../limits/ForwardingMetrics.js';
import type { ForwardedOutcome, ForwardMetrics } from '../limits/ForwardingMetrics.js';
import type { Held, HeldBytes } from '../limits/HeldBytes.js';
import { Semaphore } from '../limits/Semaphore.js';
import { marked, passedOn, readRequest, streamCaller, unaryCaller } from './forwardingCallers.js';
import type { ForwardedCaller } from './forwardingCallers.js';
import { refusalOf } from './refusals.js';
import type { CallRefusal } from './refusals.js';

/** Limit of a forwarded request, as on access nodes. The largest transaction has 1.5 MB. */
export const MAX_FORWARDED_REQUEST_BYTES = 4 * 1024 * 1024;
/** Concurrent forwarded calls with a single response. */
const MAX_CALLS = 100;
/** Concurrent forwarded streams. */
const MAX_STREAMS = 100;
/** Forwarded requests received at once; further ones wait with their callers. */
const MAX_RECEIVED = 32;
/** For a forwarded call with a single response, whatever its caller would wait. As for every call. */
const CALL_LIMIT_MS = 120_000;

export interface GrpcForwardingDependencies {
  readonly forwarder: Pick<Forwarder, 'forward'>;
  readonly held: HeldBytes;
  readonly clock: Clock;
  /** Absent: forwarded calls are not counted. */
  readonly metrics?: ForwardMetrics | undefined;
  /** Translates what a call threw into how it ends. */
  readonly explain: (error: unknown) => CallRefusal;
}

/** Prefix of the calls that the index shares with access nodes. */
const OF_FLOW = '/flow.access.';

/** True for calls with more than one response message. */
export function isStream(path: string): boolean {
  return /\/(?:SendAnd)?Subscribe[^/]*$/.test(path);
}

/** Passes calls on to the access nodes unchanged, and the responses back. */
export class GrpcForwarding {
  readonly #forwarder: GrpcForwardingDependencies['forwarder'];
  readonly #held: HeldBytes;
  readonly #clock: Clock;
  readonly #explain: (error: unknown) => CallRefusal;
  readonly #received = new Semaphore({ places: MAX_RECEIVED });
  readonly #counts: ForwardingMetrics;
  readonly #streams = new Set<ForwardedCaller>();
  #calls = 0;
  #closed = false;

  constructor(dependencies: GrpcForwardingDependencies) {
    this.#forwarder = dependencies.forwarder;
    this.#held = dependencies.held;
    this.#clock = dependencies.clock;
    this.#explain = dependencies.explain;
    this.#counts = new ForwardingMetrics({ protocol: 'grpc' }, dependencies);
  }

  /** A call that the index does not serve. */
  serve(call: ServerDuplexStream<Buffer, Buffer>): void {
    const caller = streamCaller(call);
    const { signal } = caller;
    void this.#run(caller, async () => {
      const message = await this.#received.run(() => readRequest(call, { clock: this.#clock, signal }));
      return this.#pass(caller, message, undefined);
    });
  }

  /** True where a node may be able to serve a call that ended this way. */
  takes(path: string, error: unknown): error is ApiError {
    return path.startsWith(OF_FLOW) && isElsewhere(error);
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
    const caller = unaryCaller(call, callback);
    const own = refusal.reason === 'not_served' ? undefined : refusal;
    void this.#run(caller, () => this.#pass(caller, call.request, own), own);
  }

  serveRefusedStream(call: ServerWritableStream<Buffer, Buffer>): void {
    const caller = streamCaller(call);
    void this.#run(caller, () => this.#pass(caller, call.request, undefined));
  }

  /** Ends every stream. Calls with a single response are left to the server. */
  close(): void {
    this.#closed = true;
    for (const caller of [...this.#streams]) caller.end(refusalOf(stopping()));
  }

  /** Counts a call while it is under way, and ends it with what was thrown. */
  async #run(caller: ForwardedCaller, pass: () => Promise<ForwardedOutcome>, own?: ApiError): Promise<void> {
    const isLasting = isStream(caller.path);
    // Only known methods come here.
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
      end(await pass());
    } catch (error) {
      end(isAbort(error) ? 'cancelled' : 'refused');
      if (!isAbort(error)) caller.end(this.#explain(error));
    } finally {
      if (isLasting) this.#streams.delete(caller);
      else this.#calls -= 1;
    }
  }

  #refusalOf(isLasting: boolean): ApiError | undefined {
    if (this.#closed) return stopping();
    const bound = isLasting ? MAX_STREAMS : MAX_CALLS;
    if ((isLasting ? this.#streams.size : this.#calls) < bound) return undefined;
    const what = isLasting ? 'streams' : 'calls';
    return new ApiError(503, 'busy', `at most ${bound} ${what} are forwarded at once; retry`);
  }

  async #pass(
    caller: ForwardedCaller,
    message: Buffer,
    own: ApiError | undefined,
  ): Promise<ForwardedOutcome> {
    const { path, metadata, signal } = caller;
    const isLasting = isStream(path);
    const deadlineMs = isLasting
      ? caller.deadlineMs
      : Math.min(caller.deadlineMs, this.#clock.now() + CALL_LIMIT_MS);
    const request: ForwardedRequest = { path, message, metadata, deadlineMs, isStream: isLasting };
    const given = new AbortController();
    const onOver = (): void => given.abort(new AbortError());
    signal.addEventListener('abort', onOver, { once: true });
    if (signal.aborted) onOver();
    let told: ForwardedOutcome = 'cancelled';
    const giveUp = (error: ApiError): void => {
      told = 'busy';
      caller.end(refusalOf(error));
      onOver();
    };
    const onEnd = (code: status): void => {
      told = outcomeOf(code, own);
    };
    const outcome = await this.#forwarder.forward(request, this.#sink(caller, own, { giveUp, onEnd }), {
      signal: given.signal,
      isRepeatable: !/\/Send[^/]*$/.test(path),
    });
    if (outcome === 'ended') return told;
    caller.end(refusalOf(own ?? refusals[outcome]()));
    return outcome;
  }

  #sink(
    caller: ForwardedCaller,
    own: ApiError | undefined,
    { giveUp, onEnd }: { readonly giveUp: (error: ApiError) => void; readonly onEnd: (code: status) => void },
  ): ForwarderSink {
    let call: ForwardedCall | undefined;
    /** The node's headers. Passed on once it is certain that the caller gets the node's response. */
    let ahead: Metadata | undefined;
    let isBegun = false;
    const begin = (metadata: Metadata): void => {
      if (isBegun) return;
      isBegun = true;
      caller.sendMetadata(marked(metadata));
    };
    return {
      onCall: (begun) => {
        call = begun;
        call.read();
      },
      onMetadata: (metadata) => {
        ahead = metadata;
        if (own === undefined) begin(metadata);
      },
      onMessage: (message) => {
        let held: Held | undefined;
        try {
          held = this.#held.hold(message.length);
        } catch (error) {
          if (!(error instanceof ApiError)) throw error;
          giveUp(error);
          return;
        }
        const release = (): void => held?.release();
        if (caller.signal.aborted) release();
        else caller.signal.addEventListener('abort', release, { once: true });
        begin(ahead ?? new Metadata());
        caller.send(message, () => {
          if (isStream(caller.path)) {
            caller.signal.removeEventListener('abort', release);
            release();
          }
          call?.read();
        });
      },
      onEnd: ({ code, details, metadata }) => {
        onEnd(code);
        if (own !== undefined && code !== status.OK) caller.end(refusalOf(own));
        else caller.end({ code, details, metadata: isBegun ? passedOn(metadata) : marked(metadata) });
      },
    };
  }
}

const refusals: Readonly<Record<Exclude<ForwardOutcome, 'ended'>, () => ApiError>> = {
  unreachable: () =>
    new ApiError(
      503,
      'upstream_unreachable',
      'this call is forwarded, but no access node can be reached now; indexed data are still served',
    ),
  busy: () =>
    new ApiError(
      503,
      'busy',
      'this call is forwarded, but the access nodes accept no more of its kind now (access.ratePerSecond, or their own limits); retry',
    ),
  silent: () => indexerSilent(),
  lost: () =>
    new ApiError(
      503,
      'upstream_unreachable',
      'the connection to the access node was lost, and whether it accepted the transaction is unknown; look up its id before sending it again',
    ),
};

/** The outcome of a call that a node, or the connection to it, ended with this code. */
function outcomeOf(code: status, own: ApiError | undefined): ForwardedOutcome {
  if (code === status.OK) return 'answered';
  if (code === status.DEADLINE_EXCEEDED) return 'overdue';
  return own === undefined ? 'failed' : 'missed';
}
