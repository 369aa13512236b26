import { connectivityState, Metadata, status, type StatusObject } from '@grpc/grpc-js';
import { isAbort, unlessAborted, type Clock } from '../../runtime/index.js';
import { addressTurns, openConnection } from '../transport/channel/connection.js';
import type { AddressTurns, Connection } from '../transport/channel/connection.js';
import type { StreamCall } from '../transport/channel/rpcChannel.js';
import { maskValues, metadataFor, shownStatus } from '../transport/channel/sentMetadata.js';
import { withoutSentValues } from '../transport/channel/sentMetadata.js';
import type { Endpoint } from '../transport/endpoint.js';
import type { AccessMetrics, Admission, AdmissionEnd } from '../transport/ports.js';
import type { ForwardingAdmission, NodeMetadata } from '../transport/ports.js';
import { kindOfStatus } from '../transport/upstreamErrors.js';

/** The statuses of a call whose connection broke, or that a node dropped while shutting down. */
const CUT_OFF: ReadonlySet<status> = new Set([status.UNAVAILABLE, status.CANCELLED, status.INTERNAL]);
/** Most nodes tried for one call. */
const MAX_NODES = 4;
/** Bytes of one stream that may be buffered here while its reader is slow. */
const WINDOW_BYTES = 256 * 1024;
/** Larger answers are refused, whatever `access.maxMessageBytes` allows. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/** A node that has not accepted the connection by then counts as unreachable. */
const CONNECT_TIMEOUT_MS = 5_000;

export type ForwardOutcome =
  /** The sink has received the end of the call, or the client has left. */
  | 'ended'
  /** No node can be connected to, or none has identified itself yet. */
  | 'unreachable'
  /** Every reachable node is held back by a rate limit, or has no free stream. */
  | 'busy'
  /** The admission did not answer in time. */
  | 'silent'
  /** The connection broke, and the node may have received the call. Only for calls that must not be sent twice. */
  | 'lost';

/** One call to be forwarded unchanged. */
interface ForwardedRequest {
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly message: Buffer;
  readonly metadata: Metadata;
  /** Milliseconds since the epoch; Infinity for none. */
  readonly deadlineMs: number;
  readonly isStream: boolean;
}

export interface ForwarderSink {
  /** The call was sent: read from it. Called again if it is sent to another node. */
  onCall(call: StreamCall): void;
  onMetadata(metadata: Metadata): void;
  /** Called once per `read()`. */
  onMessage(message: Buffer): void;
  /** Called once, last. */
  onEnd(end: StatusObject): void;
}

interface ForwardingNode {
  /** For all but streams. */
  connection: Connection;
  readonly turns: AddressTurns;
}

/** How a call is sent to a node. */
interface Sending extends ForwardingNode {
  readonly admission: Admission;
  /** Our own metadata. */
  readonly sent: NodeMetadata;
  readonly sink: ForwarderSink;
  readonly signal: AbortSignal;
}

interface Parts {
  /** The nodes that may be asked, in the order of asking. */
  readonly nodes: () => readonly Endpoint[];
  readonly admission: ForwardingAdmission;
  readonly clock: Clock;
  readonly metrics: Pick<AccessMetrics, 'upstreamRequests'>;
  /** What each call to a node of this name carries, whatever its caller sent. Read for each call. Default: nothing. */
  readonly metadataFor?: (node: string) => NodeMetadata;
}

/**
 * Forwards calls to the best reachable node, and to the next one if a connection breaks before any response. A call that
 * must not be sent twice is sent once: only connecting is tried at several nodes. Forwarding takes nothing from the
 * indexer: it has connections of its own, and `ForwardingAdmission` decides when a call may be sent.
 *
 * Each stream has its own connection: proxies allow a few hundred calls at once on one, which streams would use up, and
 * retire it after so many calls, which would end the streams.
 */
export class Forwarder {
  readonly #open: (endpoint: Endpoint, turn: number) => Connection;
  readonly #parts: Parts;
  /** By name: every node ever offered, that is, the configured ones. */
  readonly #nodes = new Map<string, ForwardingNode>();
  #isClosed = false;

  constructor(options: { readonly maxMessageBytes: number; readonly userAgent: string }, parts: Parts) {
    const maxMessageBytes = Math.min(options.maxMessageBytes, MAX_ANSWER_BYTES);
    this.#open = (endpoint, turn) =>
      openConnection({ ...options, endpoint, maxMessageBytes, turn, windowBytes: WINDOW_BYTES }, parts.clock);
    this.#parts = parts;
  }

  /** Resolves when the call is over. The signal cancels it, without an end for the sink. */
  async forward(
    request: ForwardedRequest,
    sink: ForwarderSink,
    { signal, isRepeatable }: { readonly signal: AbortSignal; readonly isRepeatable: boolean },
  ): Promise<ForwardOutcome> {
    const { admission: gate, clock, metadataFor: metadataOf, metrics, nodes } = this.#parts;
    const { isStream, path } = request;
    const method = path.slice(path.lastIndexOf('/') + 1);
    let outcome: ForwardOutcome = 'unreachable';
    for (const endpoint of nodes().slice(0, MAX_NODES)) {
      if (this.#isClosed) break;
      const { name } = endpoint;
      const node = this.#nodes.get(name) ?? this.#add(endpoint);
      const own = isStream ? this.#open(endpoint, node.turns.turn) : undefined;
      try {
        if (!(await this.#isReached(own ?? node.connection, signal))) continue;
        const admission = await gate.admit(name, { method, isStream }, signal).catch((error: unknown) => {
          if (!isAbort(error) && !signal.aborted) throw error;
          return 'aborted' as const;
        });
        if (signal.aborted && typeof admission !== 'string') admission.over('other');
        if (signal.aborted || admission === 'aborted') return 'ended';
        if (typeof admission === 'string') {
          if (admission !== 'gone') outcome = admission;
          continue;
        }
        metrics.upstreamRequests.inc({ endpoint: name, method });
        const sent = metadataOf?.(name) ?? {};
        const startedMs = clock.monotonic();
        const connection = own ?? node.connection;
        const sending = send(request, { ...node, connection, admission, sent, sink, signal });
        // The connection may have been replaced while the call waited for admission, or closed: then sending fails.
        const end = await sending.catch((error: unknown) => {
          admission.over('other');
          throw error;
        });
        // A stream may just be quiet: open ones stay, and only the next one uses another address.
        if (end !== 'ended' && isStream) node.turns.next();
        else if (end !== 'ended') node.turns.unanswered(startedMs);
        if (end !== 'lost') return 'ended';
        if (!isRepeatable) return 'lost';
      } finally {
        own?.channel.close();
      }
    }
    return outcome;
  }

  /** Accepts no more calls. Those already sent continue: each connection closes with its last call. */
  close(): void {
    this.#isClosed = true;
    for (const { connection } of this.#nodes.values()) connection.channel.close();
  }

  #add(endpoint: Endpoint): ForwardingNode {
    const turns = addressTurns(this.#parts.clock, (turn) => {
      node.connection.channel.close();
      if (!this.#isClosed) node.connection = this.#open(endpoint, turn);
    });
    const node: ForwardingNode = { connection: this.#open(endpoint, turns.turn), turns };
    this.#nodes.set(endpoint.name, node);
    return node;
  }

  /** True once a call may be sent on the connection; false when there is none, or the signal aborts. Sends nothing. */
  async #isReached({ channel }: Connection, signal: AbortSignal): Promise<boolean> {
    const deadline = this.#parts.clock.now() + CONNECT_TIMEOUT_MS;
    while (!this.#isClosed && !signal.aborted) {
      const state = channel.getConnectivityState(true);
      if (state === connectivityState.READY) return true;
      if (state === connectivityState.TRANSIENT_FAILURE || state === connectivityState.SHUTDOWN) return false;
      const isOver = unlessAborted<boolean>(signal, (settle) => {
        channel.watchConnectivityState(state, deadline, (error) => settle(error !== undefined));
        return () => undefined;
      });
      if (await isOver.catch(() => true)) return false;
    }
    return false;
  }
}

/**
 * Sends an admitted call, as bytes, and reports its end to the admission. `lost`: the connection broke before any
 * response, and the sink got no end. `unanswered`: the call ended in another way without a response.
 */
function send(
  { deadlineMs, isStream, message: question, metadata: ofCaller, path }: ForwardedRequest,
  { connection, turns, admission, sent, sink, signal }: Sending,
): Promise<'ended' | 'unanswered' | 'lost'> {
  return new Promise((resolve) => {
    const call = connection.channel.createCall(path, deadlineMs, null, null, null);
    let isAnswered = false;
    let isOver = false;
    const over = (end: AdmissionEnd): void => {
      isOver = true;
      leave?.();
      signal.removeEventListener('abort', cancel);
      admission.over(end);
    };
    const end = (callStatus: StatusObject): void => {
      if (isOver) return;
      over(endOf(callStatus));
      // A server that answers sends headers.
      const isSilent = !isAnswered && Object.keys(callStatus.metadata.getMap()).length === 0;
      const isLost = isSilent && CUT_OFF.has(callStatus.code);
      if (!isLost) sink.onEnd(callStatus);
      if (!isSilent) turns.answered();
      resolve(isLost ? 'lost' : isSilent ? 'unanswered' : 'ended');
    };
    const cancel = (): void => {
      if (isOver) return;
      over('other');
      resolve(isAnswered ? 'ended' : 'unanswered');
      // After too many cancellations, a call with a deadline is left to run out instead: see `mayCancel`.
      if (connection.mayCancel() || isStream)
        call.cancelWithStatus(status.CANCELLED, 'cancelled by the client');
    };
    const makeWay = (why: StatusObject): void => {
      end(why);
      call.cancelWithStatus(status.CANCELLED, 'the stream had to make way');
    };
    admission.onMakeWay(() => makeWay(MADE_WAY));
    const leave = isStream ? connection.onDrain(() => makeWay(SHUTTING_DOWN)) : undefined;
    call.start(metadataFor(sent, ofCaller.clone()), {
      onReceiveMetadata: (metadata) => {
        if (isOver) return;
        isAnswered = true;
        turns.answered();
        sink.onMetadata(withoutSentValues(metadata, sent));
      },
      onReceiveMessage: (message: Buffer) => {
        if (isOver) return;
        isAnswered = true;
        turns.answered();
        maskValues(message, sent);
        sink.onMessage(message);
      },
      onReceiveStatus: (callStatus) => end(statusFor(callStatus, sent)),
    });
    call.sendMessageWithContext({}, question);
    call.halfClose();
    signal.addEventListener('abort', cancel, { once: true });
    if (signal.aborted) cancel();
    else sink.onCall({ read: () => call.startRead(), cancel });
  });
}

/**
 * The status for the caller. A refusal of our own credentials is not the caller's concern: it sent none of them, and
 * must not learn them from a node that repeats them.
 */
function statusFor(callStatus: StatusObject, sent: NodeMetadata): StatusObject {
  const isRefused = callStatus.code === status.UNAUTHENTICATED && Object.keys(sent).length > 0;
  return isRefused ? CREDENTIALS_REFUSED : shownStatus(callStatus, sent);
}

/** The part of the status that concerns the rate limit. */
function endOf({ code, details }: StatusObject): AdmissionEnd {
  if (code === status.OK) return 'answered';
  return kindOfStatus({ code, details }) === 'rate_limited' ? 'rate_limited' : 'other';
}

const SHUTTING_DOWN: StatusObject = {
  code: status.UNAVAILABLE,
  details: 'the access node takes no more calls on this connection; try again',
  metadata: new Metadata(),
};
const CREDENTIALS_REFUSED: StatusObject = {
  code: status.FAILED_PRECONDITION,
  details:
    'this call is forwarded, but the access node refuses what this indexer identifies itself with (access.metadataFile): tell its operator',
  metadata: new Metadata(),
};
const MADE_WAY: StatusObject = {
  code: status.RESOURCE_EXHAUSTED,
  details: 'the access node grants few streams, and the indexer needs them; try again later',
  metadata: new Metadata(),
};
