import { connectivityState, Metadata, status } from '@grpc/grpc-js';
import type { ChannelInterface } from '@grpc/grpc-js';
import { unlessAborted } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { AccessMetrics, NodeMetadata } from '../transport/ports.js';
import {
  maskValues,
  metadataFor,
  withoutSentValues,
  withoutValues,
} from '../transport/channel/sentMetadata.js';
import { openConnection } from '../transport/channel/connection.js';
import type { Connection } from '../transport/channel/connection.js';
import type { StreamCall } from '../transport/channel/RpcChannel.js';
import type { Endpoint } from '../transport/endpoint.js';
import { kindOfStatus } from '../transport/upstreamErrors.js';
import type { Admission, AdmissionEnd } from '../transport/ports.js';

/** Bytes of one stream that may be buffered here while its reader is slow. */
const WINDOW_BYTES = 256 * 1024;
/** Larger answers are refused, whatever `access.maxMessageBytes` allows. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/** A node that has not accepted the connection by then counts as unreachable. */
const CONNECT_TIMEOUT_MS = 5_000;

/** One call to be forwarded unchanged. */
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
  /** Called once per `read()`. */
  onMessage(message: Buffer): void;
  /** Called once, last. */
  onEnd(end: ForwardedStatus): void;
}

/** What forwarding takes to reach the nodes. */
export interface ForwardingDependencies {
  readonly clock: Clock;
  readonly metrics: Pick<AccessMetrics, 'upstreamRequests'>;
  /** What each call to a node of this name carries, whatever its caller sent. Read for each call. Default: nothing. */
  readonly metadataFor?: (node: string) => NodeMetadata;
}

/** Forwards calls to one node, as bytes, over a connection of its own. */
export class NodeForwarding {
  readonly name: string;
  readonly #open: () => Connection;
  readonly #dependencies: ForwardingDependencies;
  #connection: Connection | undefined;
  /** Set while callers wait for the connection. */
  #reaching: Promise<boolean> | undefined;
  #closed = false;

  constructor(
    options: { readonly endpoint: Endpoint; readonly maxMessageBytes: number; readonly userAgent: string },
    dependencies: ForwardingDependencies,
  ) {
    this.name = options.endpoint.name;
    this.#dependencies = dependencies;
    const maxMessageBytes = Math.min(options.maxMessageBytes, MAX_ANSWER_BYTES);
    this.#open = () =>
      openConnection({ ...options, maxMessageBytes, windowBytes: WINDOW_BYTES }, dependencies.clock);
  }

  /**
   * True when a call may be sent now, false when the node cannot be connected to, or the signal aborts. Sends nothing. All
   * callers wait for the same connection, and leave as soon as theirs do.
   */
  async reach(signal: AbortSignal): Promise<boolean> {
    this.#reaching ??= this.#reach().finally(() => (this.#reaching = undefined));
    const reaching = this.#reaching;
    return unlessAborted<boolean>(signal, (resolve) => {
      void reaching.then(resolve);
      return () => undefined;
    }).catch(() => false);
  }

  async #reach(): Promise<boolean> {
    const deadline = this.#dependencies.clock.now() + CONNECT_TIMEOUT_MS;
    while (!this.#closed) {
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

  /** Sends a call that was admitted, and reports its end to the admission. */
  open(request: ForwardedRequest, admission: Admission, sink: ForwardedSink): StreamCall {
    const method = methodOf(request.path);
    this.#dependencies.metrics.upstreamRequests.inc({ endpoint: this.name, method });
    const call = this.#createCall(request, admission);
    let ended = false;
    const end = (callStatus: ForwardedStatus): void => {
      if (ended) return;
      ended = true;
      leave?.();
      admission.over(endOf(callStatus));
      sink.onEnd(callStatus);
    };
    const makeWay = (why: ForwardedStatus): void => {
      end(why);
      call.cancelWithStatus(status.CANCELLED, 'the stream had to make way');
    };
    admission.onMakeWay(() => makeWay(MADE_WAY));
    const leave = request.isStream ? this.#connection?.streams(() => makeWay(SHUTTING_DOWN)) : undefined;
    const sent = this.#dependencies.metadataFor?.(this.name) ?? {};
    call.start(metadataFor(sent, request.metadata.clone()), {
      onReceiveMetadata: (metadata) => {
        if (!ended) sink.onMetadata(withoutSentValues(metadata, sent));
      },
      onReceiveMessage: (message: Buffer) => {
        maskValues(message, sent);
        if (!ended) sink.onMessage(message);
      },
      onReceiveStatus: (callStatus) => end(statusFor(callStatus, sent)),
    });
    call.sendMessageWithContext({}, request.message);
    call.halfClose();
    return {
      read: () => call.startRead(),
      cancel: () => {
        const wasEnded = ended;
        ended = true;
        leave?.();
        if (!wasEnded) admission.over('other');
        // After too many cancellations, a call with a deadline is left to run out instead: see `mayCancel`.
        if (!wasEnded && (this.#connection?.mayCancel() === true || request.isStream)) {
          call.cancelWithStatus(status.CANCELLED, 'cancelled by the client');
        }
      },
    };
  }

  /** Ends the calls under way with UNAVAILABLE and takes no more. */
  close(): void {
    this.#closed = true;
    this.#connection?.client.close();
  }

  /** It throws for a channel that was closed while the call waited to be admitted. */
  #createCall(
    { path, deadlineMs }: ForwardedRequest,
    admission: Admission,
  ): ReturnType<ChannelInterface['createCall']> {
    try {
      return this.#channel().createCall(path, deadlineMs, null, null, null);
    } catch (error) {
      admission.over('other');
      throw error;
    }
  }

  #channel(): ChannelInterface {
    this.#connection ??= this.#open();
    return this.#connection.channel;
  }
}

/**
 * The status that the caller gets. Our own credentials are refused: that is no matter of the caller, who sent none of them,
 * and must not learn them from a node that repeats them.
 */
function statusFor({ code, details, metadata }: ForwardedStatus, sent: NodeMetadata): ForwardedStatus {
  if (code === status.UNAUTHENTICATED && Object.keys(sent).length > 0) return CREDENTIALS_REFUSED;
  return { code, details: withoutValues(details, sent), metadata: withoutSentValues(metadata, sent) };
}

/** The part of the status that concerns the rate limit. */
function endOf({ code, details }: ForwardedStatus): AdmissionEnd {
  if (code === status.OK) return 'answered';
  return kindOfStatus({ code, details }) === 'rate_limited' ? 'rate_limited' : 'other';
}

/** The method of a path. */
export function methodOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

const SHUTTING_DOWN: ForwardedStatus = {
  code: status.UNAVAILABLE,
  details: 'the access node takes no more calls on this connection; try again',
  metadata: new Metadata(),
};
const CREDENTIALS_REFUSED: ForwardedStatus = {
  code: status.FAILED_PRECONDITION,
  details:
    'this call is forwarded, but the access node refuses what this indexer identifies itself with (access.metadataFile): tell its operator',
  metadata: new Metadata(),
};
const MADE_WAY: ForwardedStatus = {
  code: status.RESOURCE_EXHAUSTED,
  details: 'the access node grants few streams, and the indexer needs them; try again later',
  metadata: new Metadata(),
};
