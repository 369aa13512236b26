import type { AccessNode } from '../../access/index.js';
import type { CollectionWay, RequestTrail } from '../ports.js';
import type { RequestFailure } from './requestFailure.js';
import type { NodeRecord, WantedCollection } from '../heights/WantedCollection.js';

/** After this many denials over this time, a denial no longer means that the node is just late. */
const LASTING = { denials: 3, ms: 2_000 };

const NO_FAILURES: RequestTrail['failures'] = new Map();

/** One call: what is requested, from which node, and how. */
export interface Question {
  readonly wanted: WantedCollection;
  readonly node: AccessNode;
  readonly way: CollectionWay;
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
