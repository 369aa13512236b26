import { connectivityState, Metadata, status } from '@grpc/grpc-js';
import type { ChannelInterface, Client } from '@grpc/grpc-js';
import type { Clock } from '../../runtime/index.js';
import { abortReason } from '../../runtime/index.js';
import type { AccessMetrics } from '../transport/RpcClient.js';
import { CancelBudget } from '../transport/CancelBudget.js';
import { openClient } from '../transport/openClient.js';
import { DrainWatch } from '../transport/DrainWatch.js';
import type { Endpoint } from '../transport/endpoint.js';
import { kindOfStatus } from '../transport/upstreamErrors.js';
import { MethodLimiter } from '../transport/MethodLimiter.js';
import type { Permit } from '../transport/MethodLimiter.js';
import type { StreamQuota } from '../transport/StreamQuota.js';

/** What may wait here of one stream whose reader is slow. */
const WINDOW_BYTES = 256 * 1024;
/** Larger answers are refused, whatever `access.maxMessageBytes` allows. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/** After which a node that does not accept the connection counts as out of reach. */
const CONNECT_TIMEOUT_MS = 5_000;
/** Calls that may wait for one method's turn at one node. */
const MAX_WAITING_CALLS = 256;

/** One call to be passed on as it is. */
export interface ForwardedRequest {
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly message: Buffer;
  readonly metadata: Metadata;
  /** Milliseconds since the epoch; Infinity for none. */
  readonly deadlineMs: number;
  readonly isStream: boolean;
}

export interface ForwardedStatus {
  readonly code: status;
  readonly details: string;
  readonly metadata: Metadata;
}

export interface ForwardedSink {
  onMetadata(metadata: Metadata): void;
  /** One per `read()`. */
  onMessage(message: Buffer): void;
  /** Once, last. */
  onEnd(end: ForwardedStatus): void;
}

export interface ForwardedCall {
  /** Asks for one more message. Nothing is taken from the channel unasked. */
  read(): void;
  cancel(): void;
}

export interface NodeForwardingOptions {
  readonly endpoint: Endpoint;
  readonly ratePerSecond: number;
  readonly maxMessageBytes: number;
  readonly userAgent: string;
}

export interface NodeForwardingDependencies {
  readonly clock: Clock;
  readonly metrics: Pick<AccessMetrics, 'upstreamRequests'>;
  readonly caller: {
    readonly scarcity: StreamQuota;
    /** Of a method that the indexer calls as well. */
    limiterOf(method: string): MethodLimiter | undefined;
  };
}

/**
 * Passes calls of others on to one node, as bytes. It takes nothing that the indexer needs: it has a connection of its own, of
 * the rate of a method it gets what the indexer leaves, and its streams make way where streams are scarce. What becomes of
 * these calls says nothing about the node: they are made of what callers send.
 */
export class NodeForwarding {
  readonly name: string;
  readonly #options: NodeForwardingOptions;
  readonly #clock: Clock;
  readonly #metrics: NodeForwardingDependencies['metrics'];
  readonly #caller: NodeForwardingDependencies['caller'];
  readonly #cancels: CancelBudget;
  /** Of the methods that the indexer does not call. */
  readonly #limiters = new Map<string, MethodLimiter>();
  #client: Client | undefined;
  #drain: DrainWatch | undefined;
  #closed = false;

  constructor(options: NodeForwardingOptions, dependencies: NodeForwardingDependencies) {
    this.name = options.endpoint.name;
    this.#options = options;
    this.#clock = dependencies.clock;
    this.#metrics = dependencies.metrics;
    this.#caller = dependencies.caller;
    this.#cancels = new CancelBudget({ clock: this.#clock });
  }

  /** True where a call may be sent now, false where the node cannot be connected to. Nothing is sent. */
  async reach(signal: AbortSignal): Promise<boolean> {
    const deadline = this.#clock.now() + CONNECT_TIMEOUT_MS;
    while (!this.#closed && !signal.aborted) {
      const channel = this.#channel();
      const state = channel.getConnectivityState(true);
      if (state === connectivityState.READY) return true;
      if (state === connectivityState.TRANSIENT_FAILURE || state === connectivityState.SHUTDOWN) return false;
      const changed = await new Promise<boolean>((resolve) =>
        channel.watchConnectivityState(state, deadline, (error) => resolve(error === undefined)),
      );
      if (!changed) return false;
    }
    return false;
  }

  /**
   * Waits for the turn of a call, behind the indexer's. `undefined` where too many wait, or streams are scarce. Expected
   * errors: the signal's abort reason.
   */
  async admit(request: ForwardedRequest, signal: AbortSignal): Promise<Turn | undefined> {
    if (request.isStream) return this.#caller.scarcity.scarce ? undefined : {};
    const limiter = this.#limiter(methodOf(request.path));
    if (limiter.yieldingFull) return undefined;
    const permit = await limiter.acquireYielding(signal);
    if (signal.aborted) throw abortReason(signal);
    return { limiter, permit };
  }

  /** Sends the call. `turn` is what `admit` gave. */
  open(request: ForwardedRequest, turn: Turn, sink: ForwardedSink): ForwardedCall {
    const method = methodOf(request.path);
    this.#metrics.upstreamRequests.inc({ endpoint: this.name, method });
    const { limiter, permit } = turn;
    const call = this.#channel().createCall(request.path, request.deadlineMs, null, null, null);
    let ended = false;
    const end = (callStatus: ForwardedStatus): void => {
      if (ended) return;
      ended = true;
      leave();
      if (limiter !== undefined && permit !== undefined) judge(limiter, permit, callStatus);
      sink.onEnd(callStatus);
    };
    const makeWay = (why: ForwardedStatus): void => {
      end(why);
      call.cancelWithStatus(status.CANCELLED, 'the stream makes way');
    };
    const leaves = request.isStream
      ? [
          this.#caller.scarcity.yielding(() => makeWay(MADE_WAY)),
          this.#drain?.opened(() => makeWay(SHUTTING_DOWN)),
        ]
      : [];
    const leave = (): void => {
      for (const left of leaves) left?.();
    };
    call.start(request.metadata, {
      onReceiveMetadata: (metadata) => {
        if (!ended) sink.onMetadata(metadata);
      },
      onReceiveMessage: (message: Buffer) => {
        if (!ended) sink.onMessage(message);
      },
      onReceiveStatus: end,
    });
    call.sendMessageWithContext({}, request.message);
    call.halfClose();
    return {
      read: () => call.startRead(),
      cancel: () => {
        const wasEnded = ended;
        ended = true;
        leave();
        // A call that may run out by itself does so when too many were cut short: see CancelBudget.
        if (!wasEnded && (this.#cancels.take() || request.isStream)) {
          call.cancelWithStatus(status.CANCELLED, 'cancelled by the client');
        }
      },
    };
  }

  /** Ends the calls under way with UNAVAILABLE; no others are taken. */
  close(): void {
    this.#closed = true;
    this.#client?.close();
  }

  #channel(): ChannelInterface {
    const { maxMessageBytes } = this.#options;
    this.#client ??= openClient({
      ...this.#options,
      maxMessageBytes: Math.min(maxMessageBytes, MAX_ANSWER_BYTES),
      windowBytes: WINDOW_BYTES,
    });
    const channel = this.#client.getChannel();
    this.#drain ??= new DrainWatch({ channel, clock: this.#clock });
    return channel;
  }

  #limiter(method: string): MethodLimiter {
    const shared = this.#caller.limiterOf(method) ?? this.#limiters.get(method);
    if (shared !== undefined) return shared;
    const { ratePerSecond } = this.#options;
    const limiter = new MethodLimiter(
      { ratePerSecond, maxWaiting: MAX_WAITING_CALLS },
      { clock: this.#clock },
    );
    this.#limiters.set(method, limiter);
    return limiter;
  }
}

/** What a call that was let through owes to its limiter. */
export interface Turn {
  readonly limiter?: MethodLimiter;
  readonly permit?: Permit;
}

/** Only what says something about the rate. */
function judge(limiter: MethodLimiter, permit: Permit, { code, details }: ForwardedStatus): void {
  if (code === status.OK) limiter.succeeded(permit);
  else if (kindOfStatus({ code, details }) === 'rate_limited') limiter.rateLimited(permit);
}

function methodOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

const SHUTTING_DOWN: ForwardedStatus = {
  code: status.UNAVAILABLE,
  details: 'the access node takes no more calls on this connection; ask again',
  metadata: new Metadata(),
};
const MADE_WAY: ForwardedStatus = {
  code: status.RESOURCE_EXHAUSTED,
  details: 'the access node grants few streams, and the indexer needs them; ask again later',
  metadata: new Metadata(),
};
