import { status } from '@grpc/grpc-js';
import { isAbort } from '../../runtime/index.js';
import type {
  ForwardedCall,
  ForwardedRequest,
  ForwardedSink,
  NodeForwarding,
  Turn,
} from './NodeForwarding.js';

/** How a call ends whose connection broke, or that a node dropped while it shut down. */
const CUT_OFF: ReadonlySet<status> = new Set([status.UNAVAILABLE, status.CANCELLED, status.INTERNAL]);
/** Nodes that one call is tried at. */
const MAX_NODES = 4;

export type ForwardOutcome =
  /** The sink was told the end, or nobody waits for it any more. */
  | 'ended'
  /** No node can be connected to, or has said yet who it is. */
  | 'unreachable'
  /** Every node that can be reached is held back by a rate, or has no streams to spare. */
  | 'busy'
  /** The connection broke, and whether the node got the call is not known. Only for what must not be sent twice. */
  | 'lost';

export interface ForwarderSink extends ForwardedSink {
  /** The call was sent: what comes now is read from this one. Called again where it is sent to another node. */
  onCall(call: ForwardedCall): void;
}

/**
 * Passes calls on to the best node that can be reached, and to the next one where a connection breaks before anything came
 * back. What must not be sent twice is sent once: only connecting is tried at several nodes.
 */
export class Forwarder {
  readonly #nodes: () => readonly NodeForwarding[];

  constructor(dependencies: { readonly nodes: () => readonly NodeForwarding[] }) {
    this.#nodes = dependencies.nodes;
  }

  /** Resolves when it is over. The signal cancels the call; the sink is not told then. */
  async forward(
    request: ForwardedRequest,
    sink: ForwarderSink,
    { signal, isRepeatable }: { readonly signal: AbortSignal; readonly isRepeatable: boolean },
  ): Promise<ForwardOutcome> {
    let outcome: ForwardOutcome = 'unreachable';
    for (const node of this.#nodes().slice(0, MAX_NODES)) {
      if (!(await node.reach(signal))) continue;
      if (signal.aborted) return 'ended';
      const turn = await admitted(node, request, signal);
      if (turn === 'aborted') return 'ended';
      if (turn === undefined) {
        outcome = 'busy';
        continue;
      }
      const end = await attempt(node, request, turn, sink, signal);
      if (end === 'ended') return 'ended';
      if (!isRepeatable) return 'lost';
    }
    return outcome;
  }
}

async function admitted(
  node: NodeForwarding,
  request: ForwardedRequest,
  signal: AbortSignal,
): Promise<Turn | undefined | 'aborted'> {
  try {
    return await node.admit(request, signal);
  } catch (error) {
    if (isAbort(error) || signal.aborted) return 'aborted';
    throw error;
  }
}

/** `lost`: the connection broke, or never was, and nothing came back. The sink knows nothing of it. */
function attempt(
  node: NodeForwarding,
  request: ForwardedRequest,
  turn: Turn,
  sink: ForwarderSink,
  signal: AbortSignal,
): Promise<'ended' | 'lost'> {
  return new Promise((resolve) => {
    let isAnswered = false;
    const onAbort = (): void => {
      call.cancel();
      resolve('ended');
    };
    const call = node.open(request, turn, {
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
        // Whatever a server says, it says with headers.
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
