import { faultOf, troubleOf, UpstreamError } from '../../access/index.js';
import type { AccessMethod, AccessNode, TroubleKind, UpstreamErrorKind } from '../../access/index.js';
import { InvalidCollectionError } from '../../flow/index.js';
import type { NodeRecord, WantedCollection } from '../heights/WantedCollection.js';
import type { CollectionWay, RequestTrail } from '../ports.js';
import type { Fault } from '../sources/FaultReporter.js';

/** After this many denials over this time, a denial no longer means that the node is just late. */
const LASTING = { denials: 3, ms: 2_000 };

const NO_FAILURES: RequestTrail['failures'] = new Map();

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

/** One call: what is requested, from which node, and how. */
export interface Question {
  readonly wanted: WantedCollection;
  readonly node: AccessNode;
  readonly way: CollectionWay;
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

/** Records a failure: for `explain`, and for choosing what to try next. */
export function remember({ wanted, node, way }: Question, failure: RequestFailure): void {
  const { kind, text, isNotFound, isPromised, isSilence } = failure;
  if (isNotFound) wanted.notFound += 1;
  if (isSilence) wanted.silences += 1;
  wanted.lastError = text;
  const failures = (wanted.failures ??= new Map<string, NodeRecord>());
  const before = failures.get(node.name);
  const lackedMs = isNotFound ? wanted.sentAtMs - (wanted.newSinceMs ?? wanted.sentAtMs) : 0;
  failures.set(node.name, {
    kind,
    method: failure.method ?? way,
    lastError: text,
    isDenial: isNotFound,
    isPromised,
    count: (before?.count ?? 0) + 1,
    lastAt: wanted.lastAskedAt ?? 0,
    sinceMs: before?.sinceMs ?? wanted.sentAtMs,
    ways: new Set(before?.ways).add(way),
    deniedBy: isNotFound ? way : before?.deniedBy,
    lackedMs: Math.max(before?.lackedMs ?? 0, lackedMs),
  });
}

/** The call by which this node keeps denying the collection, once that has lasted. */
export function lastingDenial(
  wanted: WantedCollection,
  { name }: AccessNode,
  nowMs: number,
): CollectionWay | undefined {
  if (wanted.notFound < LASTING.denials) return undefined;
  if (nowMs - (wanted.firstAskedAtMs ?? nowMs) < LASTING.ms) return undefined;
  return wanted.failures?.get(name)?.deniedBy;
}

export function trailOf(wanted: WantedCollection): RequestTrail {
  const isUnderWay = wanted.call !== undefined;
  const { attempts, lastNode, lastError, lastAskedAt, notFound, failures = NO_FAILURES } = wanted;
  return {
    attempts,
    lastNode,
    lastError,
    lastAskedAt,
    notFound,
    isUnderWay,
    failures,
    askedAtMs: isUnderWay ? wanted.sentAtMs : undefined,
    lastMethod: wanted.lastWay,
  };
}
