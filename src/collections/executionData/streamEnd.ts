import { UpstreamError, type NodeFault, type TroubleKind } from '../../access/index.js';
import { InvalidCollectionError } from '../../flow/index.js';
import { faultIn, type Fault } from '../faultReporter.js';

/**
 * Why we give up a stream: what counts against the node, and why the next height is missing (`undefined`: we left the
 * stream, and the data is available).
 */
const REASONS = {
  ended: { fault: undefined, kind: 'refused' },
  /** Due data does not arrive. */
  silent: { fault: 'stale', kind: 'unreachable' },
  /** Nothing ever arrived, although the height at which it was opened is due. */
  absent: { fault: 'stale', kind: 'unreachable' },
  /** Data arrives more slowly than the chain grows. */
  lagging: { fault: 'stale', kind: 'unreachable' },
  /** Its next heights are already durable: reopening above them is cheaper. */
  skip_ahead: { fault: undefined, kind: undefined },
  /** The node does not serve the heights that follow (the edge of a spork). */
  moved: { fault: undefined, kind: undefined },
  /** A height came out of order. */
  malformed: { fault: 'lied', kind: 'invalid' },
} as const satisfies Record<
  string,
  { readonly fault: NodeFault | undefined; readonly kind: TroubleKind | undefined }
>;
type GivenUp = keyof typeof REASONS;

export interface StreamEnd extends Pick<Fault, 'text' | 'refused' | 'fault' | 'method'> {
  /** The reason label of `stream_reopens_total`. */
  readonly reason: Fault['reason'] | GivenUp;
  /** The stream contradicts the block, or its guarantees: either side may be wrong. See `Window.isCertain`. */
  readonly contradicts?: 'guarantees' | 'block';
  /** Why the data is missing; `undefined` when we left the stream for reasons of our own. */
  readonly kind: TroubleKind | undefined;
  /** The node has nothing below this height. */
  readonly prunedBelow?: number;
}

/** The end of a stream that we give up, and open another. */
export function givenUp(reason: GivenUp, text: string): StreamEnd {
  return { reason, text, refused: reason === 'malformed' ? reason : undefined, ...REASONS[reason] };
}

/** The errors of flow-go, and of another indexer, for heights below the first that the node has. */
const PRUNED = /(?:lower than (?:the )?lowest|below the first) indexed height (\d+)/i;

/** Classifies the error that ended a stream; `undefined` if it is unexpected. */
export function streamEndBy(error: unknown): StreamEnd | undefined {
  const end = faultIn(error);
  if (error instanceof InvalidCollectionError && error.reason !== 'malformed') {
    const contradicts = error.reason === 'wrong_block' ? 'block' : 'guarantees';
    return end && { ...end, fault: undefined, contradicts };
  }
  if (end === undefined || !(error instanceof UpstreamError)) return end;
  const named = Number(PRUNED.exec(error.message)?.[1] ?? error.lowestHeight);
  return {
    ...end,
    // We set no deadline: the node, or a proxy before it, ended the stream.
    fault: error.kind === 'deadline' ? 'failing' : end.fault,
    ...(Number.isSafeInteger(named) ? { prunedBelow: named } : {}),
  };
}
