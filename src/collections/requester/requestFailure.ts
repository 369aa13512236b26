import { faultOf, troubleOf, UpstreamError } from '../../access/index.js';
import type { AccessMethod, TroubleKind, UpstreamErrorKind } from '../../access/index.js';
import { InvalidCollectionError } from '../../flow/index.js';
import type { Fault } from '../sources/FaultReporter.js';

/** What a failed attempt means. */
export interface RequestFailure extends Fault {
  /** A rate limit: the node's own delay slows it down, the collection itself does not back off further. */
  readonly isNodeBusy: boolean;
  /** The node has no such collection. Many a node cannot tell one that it has yet to fetch from one that never was. */
  readonly isNotFound: boolean;
  /** There was no answer in time. */
  readonly isSilence: boolean;
  readonly kind: TroubleKind;
  /** The call that failed, where the error tells. */
  readonly method: AccessMethod | undefined;
}

/** Reads an error of one attempt. `undefined` for anything that is not expected of an access node. */
export function judgeFailure(error: unknown): RequestFailure | undefined {
  if (error instanceof InvalidCollectionError) {
    const text = `${error.reason}: ${error.message}`;
    return {
      ...{ text, refused: error.reason, fault: 'lied', kind: 'invalid', method: undefined },
      ...{ isNodeBusy: false, isNotFound: false, isSilence: false },
    };
  }
  if (error instanceof UpstreamError) {
    const kind = troubleOf(error.kind);
    return {
      ...{ text: error.message, kind },
      refused: error.kind === 'malformed' || error.kind === 'too_large' ? error.kind : undefined,
      // There is nothing wrong with asking for a collection by its id.
      fault: isRefusal(error.kind) ? 'failing' : faultOf(error.kind),
      isNodeBusy: error.kind === 'rate_limited',
      isNotFound: kind === 'denied',
      isSilence: error.kind === 'deadline',
      method: error.method,
    };
  }
  return undefined;
}

function isRefusal(kind: UpstreamErrorKind): boolean {
  return kind === 'invalid_argument' || kind === 'failed_precondition';
}
