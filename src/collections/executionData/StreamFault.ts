import { faultOf, troubleOf, UpstreamError } from '../../access/index.js';
import type { AccessMethod, NodeFault, TroubleKind } from '../../access/index.js';
import { InvalidCollectionError } from '../../flow/index.js';
import type { Fault } from '../sources/FaultReporter.js';

/** Why a stream is left by our own decision. */
export type StreamFaultReason =
  /** The node ended it. */
  | 'ended'
  /** Data is due and does not come. */
  | 'silent'
  /** Nothing ever came, although the height that it was opened at is sealed. */
  | 'absent'
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
  absent: 'stale',
  lagging: 'stale',
  skip_ahead: undefined,
  moved: undefined,
  malformed: 'lied',
};

/** `undefined`: we left the stream, and the data is available. */
const TROUBLES: Record<StreamFaultReason, TroubleKind | undefined> = {
  ended: 'refused',
  silent: 'unreachable',
  absent: 'unreachable',
  lagging: 'unreachable',
  skip_ahead: undefined,
  moved: undefined,
  malformed: 'invalid',
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
  /** Why the data did not come; `undefined` when we left the stream for our own reasons. */
  readonly kind: TroubleKind | undefined;
  /** What is wrong, without the kind of error. */
  readonly said: string;
  /** The call, where the error tells. */
  readonly method?: AccessMethod;
  /** The node has no execution data below this height. */
  readonly prunedBelow?: number;
}

/** A node whose execution data begins above the height asked for, in the words of flow-go. */
const PRUNED = /lower than (?:the )?lowest indexed height (\d+)/i;

/** Reads what ended a stream. `undefined` for anything that is not expected. */
export function judgeStreamEnd(error: unknown): StreamEnd | undefined {
  if (error instanceof StreamFault) {
    const { reason, message } = error;
    const refused = reason === 'malformed' ? reason : undefined;
    const text = `${reason}: ${message}`;
    return { reason, text, refused, fault: NODE_FAULTS[reason], kind: TROUBLES[reason], said: message };
  }
  if (error instanceof InvalidCollectionError) {
    const { reason, message } = error;
    const said = `${reason}: ${message}`;
    const refusal = { reason: 'invalid', text: said, refused: reason, kind: 'invalid' as const, said };
    if (reason === 'malformed') return { ...refusal, fault: 'lied' };
    return { ...refusal, fault: undefined, contradicts: true };
  }
  if (error instanceof UpstreamError) {
    const { kind, message, method } = error;
    const refused = kind === 'malformed' || kind === 'too_large' ? kind : undefined;
    // No deadline of ours: the node, or what stands before it, ended the stream.
    const named = Number(PRUNED.exec(message)?.[1] ?? error.lowestHeight);
    return {
      ...{ reason: kind, text: message, refused, fault: kind === 'deadline' ? 'failing' : faultOf(kind) },
      ...{ kind: troubleOf(kind), said: message, method },
      ...(Number.isSafeInteger(named) ? { prunedBelow: named } : {}),
    };
  }
  return undefined;
}
