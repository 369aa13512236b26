import { UpstreamError } from '../access/index.js';
import type { NodeFault, UpstreamErrorKind } from '../access/index.js';
import { InvalidCollectionError } from '../flow/index.js';
import type { Fault } from './FaultReporter.js';

/** Why a stream is left by our own decision. */
export type StreamFaultReason =
  /** The node ended it. */
  | 'ended'
  /** Data is due and does not come. */
  | 'silent'
  /** It comes, but slower than the chain grows. */
  | 'lagging'
  /** What it brings next is long durable: cheaper to open again above. */
  | 'skip_ahead'
  /** The node does not serve the heights that follow (the edge of a spork). */
  | 'moved'
  /** A height came out of order. */
  | 'malformed';

const NODE_FAULTS: Record<StreamFaultReason, NodeFault | undefined> = {
  ended: undefined,
  silent: 'stale',
  lagging: 'stale',
  skip_ahead: undefined,
  moved: undefined,
  malformed: 'lied',
};

/** Thrown and caught within the execution-data indexer: this stream is done with, open another one. */
export class StreamFault extends Error {
  override readonly name = 'StreamFault';
  readonly reason: StreamFaultReason;

  constructor(reason: StreamFaultReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** What the end of a stream means. */
export interface StreamEnd extends Fault {
  /** The reason label of `stream_reopens_total`. */
  readonly reason: string;
  /** What it brought does not match the block's guarantees: either of them may be the lie. */
  readonly contradicts?: true;
}

/** Reads what ended a stream. `undefined` for anything that is not expected. */
export function judgeStreamEnd(error: unknown): StreamEnd | undefined {
  if (error instanceof StreamFault) {
    const { reason, message } = error;
    const refused = reason === 'malformed' ? reason : undefined;
    return { reason, text: `${reason}: ${message}`, refused, fault: NODE_FAULTS[reason] };
  }
  if (error instanceof InvalidCollectionError) {
    const { reason, message } = error;
    const refusal = { reason: 'invalid', text: `${reason}: ${message}`, refused: reason };
    if (reason === 'malformed') return { ...refusal, fault: 'lied' };
    return { ...refusal, fault: undefined, contradicts: true };
  }
  if (error instanceof UpstreamError) {
    const { kind, message } = error;
    const refused = kind === 'malformed' || kind === 'too_large' ? kind : undefined;
    return { reason: kind, text: message, refused, fault: streamFaultOf(kind) };
  }
  return undefined;
}

/** Unlike a call, a stream is refused by its start height in the best of order: near the tip, or while a node boots. */
function streamFaultOf(kind: UpstreamErrorKind): NodeFault | undefined {
  switch (kind) {
    case 'not_yet':
    case 'not_found':
    case 'below_root':
    case 'rate_limited':
    case 'unimplemented':
    case 'invalid_argument':
    case 'failed_precondition':
      return undefined;
    case 'malformed':
    case 'too_large':
    case 'deadline':
    case 'unavailable':
    case 'internal':
      return 'failing';
  }
}
