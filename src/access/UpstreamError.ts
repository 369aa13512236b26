import type { AccessMethod } from './types.js';

/** The kinds of failed calls that callers distinguish. All of them are expected in normal operation. */
export type UpstreamErrorKind =
  /** NotFound with the text for a collection that the node has not fetched yet: try again. */
  | 'not_yet'
  | 'not_found'
  /** The height is below the node's root; `lowestHeight` is the first that the node has. */
  | 'below_root'
  /** ResourceExhausted that is a rate or stream limit. */
  | 'rate_limited'
  /** The node does not support the method (old node, service off). */
  | 'unimplemented'
  /** ResourceExhausted that is our own receive limit. */
  | 'too_large'
  | 'invalid_argument'
  /** The node requires credentials, or rejects ours. */
  | 'unauthenticated'
  | 'failed_precondition'
  | 'deadline'
  | 'unavailable'
  /** The answer could not be decoded, or does not answer the question (another height, another id). */
  | 'malformed'
  /** A block that its id refutes: the node made it up. `reason` names the mismatch. */
  | 'forged'
  /** An unproven block, where another node may have a proof, or a proof is required. */
  | 'unproven'
  | 'internal';

/** A rejected block. A block decoder throws it; the call then fails with this kind. */
export class RefusedBlockError extends Error {
  override readonly name = 'RefusedBlockError';
  readonly kind: 'forged' | 'unproven';
  /** The mismatch in a forged block: a label of `invalid_blocks_total`. */
  readonly reason: string | undefined;

  constructor(kind: 'forged' | 'unproven', message: string, reason?: string) {
    super(message);
    this.kind = kind;
    this.reason = reason;
  }
}

/** What a call to an access node can throw besides the abort reason of its own signal. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly kind: UpstreamErrorKind;
  readonly node: string;
  readonly method: AccessMethod;
  /** For `below_root`: the lowest height that the node (or this stream of it) serves, if its text names it. */
  readonly lowestHeight: number | undefined;

  constructor(
    kind: UpstreamErrorKind,
    where: Pick<UpstreamError, 'node' | 'method'> & Partial<Pick<UpstreamError, 'lowestHeight'>>,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.kind = kind;
    this.node = where.node;
    this.method = where.method;
    this.lowestHeight = where.lowestHeight;
  }
}

/** The answer to a call, or the error it failed with. Expected errors: the abort reason of the call's signal. */
export async function outcomeOf<T>(call: Promise<T>): Promise<T | UpstreamError> {
  return call.catch((error: unknown) => {
    if (!(error instanceof UpstreamError)) throw error;
    return error;
  });
}
