import { faultOf, troubleOf, UpstreamError } from '../../access/index.js';
import type { AccessMethod, TroubleKind, UpstreamErrorKind } from '../../access/index.js';
import { InvalidCollectionError } from '../../flow/index.js';
import type { Fault } from '../sources/FaultReporter.js';

/** What a failed attempt means. */
export interface RequestFailure extends Fault {
  /** A rate limit: the node's own delay applies, and the collection does not back off in addition. */
  readonly isNodeBusy: boolean;
  /**
   * The node has no such collection. Many nodes cannot tell a collection that they have not fetched yet from one that
   * never existed.
   */
  readonly isNotFound: boolean;
  /** The node knows that there is such a collection, and is about to fetch it. */
  readonly isPromised: boolean;
  /** There was no answer in time. */
  readonly isSilence: boolean;
  readonly kind: TroubleKind;
  /** The call that failed, if the error names it. */
  readonly method: AccessMethod | undefined;
}

/** Classifies the error of one attempt; `undefined` if it is unexpected. */
export function judgeFailure(error: unknown): RequestFailure | undefined {
  if (error instanceof InvalidCollectionError) {
    const text = `${error.reason}: ${error.message}`;
    return {
      text,
      refused: error.reason,
      fault: 'lied',
      kind: 'invalid',
      method: undefined,
      isNodeBusy: false,
      isNotFound: false,
      isPromised: false,
      isSilence: false,
    };
  }
  if (error instanceof UpstreamError) {
    const kind = troubleOf(error.kind);
    return {
      text: error.message,
      kind,
      refused: error.kind === 'malformed' || error.kind === 'too_large' ? error.kind : undefined,
      // Requesting a collection by its id is always a valid request.
      fault: isRefusal(error.kind) ? 'failing' : faultOf(error.kind),
      isNodeBusy: error.kind === 'rate_limited',
      isNotFound: kind === 'denied',
      isPromised: error.kind === 'not_yet',
      isSilence: error.kind === 'deadline',
      method: error.method,
    };
  }
  return undefined;
}

function isRefusal(kind: UpstreamErrorKind): boolean {
  return kind === 'invalid_argument' || kind === 'failed_precondition';
}
