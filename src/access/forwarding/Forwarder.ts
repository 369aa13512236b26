import { status } from '@grpc/grpc-js';
import { isAbort } from '../../runtime/index.js';
import type { Endpoint } from '../transport/endpoint.js';
import type { Admission, ForwardingAdmission, NotAdmitted } from '../transport/ports.js';
import type { StreamCall } from '../transport/channel/RpcChannel.js';
import { methodOf, NodeForwarding } from './NodeForwarding.js';
import type { ForwardedRequest, ForwardedSink, ForwardingDependencies } from './NodeForwarding.js';

/** The statuses of a call whose connection broke, or that a node dropped while shutting down. */
const CUT_OFF: ReadonlySet<status> = new Set([status.UNAVAILABLE, status.CANCELLED, status.INTERNAL]);
/** Most nodes tried for one call. */
const MAX_NODES = 4;

export type ForwardOutcome =
  /** The sink has received the end of the call, or the client has left. */
  | 'ended'
  /** No node can be connected to, or none has identified itself yet. */
  | 'unreachable'
  /** Every reachable node is held back by a rate limit, or has no free stream. */
  | 'busy'
  /** Whoever admits calls did not answer in time. */
  | 'silent'
  /** The connection broke, and the node may have received the call. Only for calls that must not be sent twice. */
  | 'lost';

export interface ForwarderSink extends ForwardedSink {
  /** The call was sent: read from it. Called again if it is sent to another node. */
  onCall(call: StreamCall): void;
}

interface Options {
  readonly maxMessageBytes: number;
  readonly userAgent: string;
}

interface Dependencies extends ForwardingDependencies {
  /** The nodes that may be asked, in the order of asking. */
  readonly nodes: () => readonly Endpoint[];
  readonly admission: ForwardingAdmission;
}

/**
 * Forwards calls to the best reachable node, and to the next one if a connection breaks before any response. A call that
 * must not be sent twice is sent once: only connecting is tried at several nodes. Forwarding takes nothing from the
 * indexer: it has connections of its own, and `ForwardingAdmission` decides when a call may be sent.
 */
export class Forwarder {
  readonly #options: Options;
  readonly #dependencies: Dependencies;
  /** By name: every node that was ever offered, that is, the configured ones. */
  readonly #nodes = new Map<string, NodeForwarding>();

  constructor(options: Options, dependencies: Dependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
  }

  /** Resolves when it is over. The signal cancels the call, without an end for the sink. */
  async forward(
    request: ForwardedRequest,
    sink: ForwarderSink,
    { signal, isRepeatable }: { readonly signal: AbortSignal; readonly isRepeatable: boolean },
  ): Promise<ForwardOutcome> {
    let outcome: ForwardOutcome = 'unreachable';
    for (const node of this.#offered().slice(0, MAX_NODES)) {
      if (!(await node.reach(signal))) continue;
      if (signal.aborted) return 'ended';
      const admission = await this.#admitted(node, request, signal);
      if (admission === 'aborted') return 'ended';
      if (typeof admission === 'string') {
        if (admission !== 'gone') outcome = admission;
        continue;
      }
      const end = await attempt(node, request, admission, sink, signal);
      if (end === 'ended') return 'ended';
      if (!isRepeatable) return 'lost';
    }
    return outcome;
  }

  /** Ends the calls under way with UNAVAILABLE and takes no more. */
  close(): void {
    for (const node of this.#nodes.values()) node.close();
  }

  #offered(): readonly NodeForwarding[] {
    return this.#dependencies.nodes().map((endpoint) => {
      let node = this.#nodes.get(endpoint.name);
      if (node === undefined) {
        node = new NodeForwarding({ endpoint, ...this.#options }, this.#dependencies);
        this.#nodes.set(endpoint.name, node);
      }
      return node;
    });
  }

  async #admitted(
    { name }: NodeForwarding,
    { path, isStream }: ForwardedRequest,
    signal: AbortSignal,
  ): Promise<Admission | NotAdmitted | 'aborted'> {
    try {
      const admission = await this.#dependencies.admission.admit(
        name,
        { method: methodOf(path), isStream },
        signal,
      );
      if (!signal.aborted) return admission;
      if (typeof admission !== 'string') admission.over('other');
      return 'aborted';
    } catch (error) {
      if (isAbort(error) || signal.aborted) return 'aborted';
      throw error;
    }
  }
}

/** `lost`: the connection broke or was never made, and there was no response. The sink has not been called. */
function attempt(
  node: NodeForwarding,
  request: ForwardedRequest,
  admission: Admission,
  sink: ForwarderSink,
  signal: AbortSignal,
): Promise<'ended' | 'lost'> {
  return new Promise((resolve) => {
    let isAnswered = false;
    const onAbort = (): void => {
      call.cancel();
      resolve('ended');
    };
    const call = node.open(request, admission, {
      onMetadata: (metadata) => {
        isAnswered = true;
        sink.onMetadata(metadata);
      },
      onMessage: (message) => {
        isAnswered = true;
        sink.onMessage(message);
      },
      onEnd: (end) => {
        signal.removeEventListener('abort', onAbort);
        // A server that answers sends headers.
        const isSilent = !isAnswered && Object.keys(end.metadata.getMap()).length === 0;
        if (isSilent && CUT_OFF.has(end.code)) {
          resolve('lost');
          return;
        }
        sink.onEnd(end);
        resolve('ended');
      },
    });
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    else sink.onCall(call);
  });
}
