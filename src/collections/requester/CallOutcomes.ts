import { faultOf, troubleOf, UpstreamError } from '../../access/index.js';
import type {
  AccessMethod,
  AccessNode,
  AccessNodes,
  TroubleKind,
  UpstreamErrorKind,
} from '../../access/index.js';
import { InvalidCollectionError, VerificationMemory, verifyCollection } from '../../flow/index.js';
import type { VerifiedCollection } from '../../flow/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { isAbort, RunningAverage } from '../../runtime/index.js';
import type { NodeRecord, WantedCollection } from '../heights/WantedCollection.js';
import type { CollectionSink, CollectionWay, RequestTrail } from '../ports.js';
import { FaultReporter } from '../sources/FaultReporter.js';
import type { Fault } from '../sources/FaultReporter.js';
import type { Answer } from './CollectionCalls.js';
import type { CollectionNodes } from './CollectionNodes.js';
import type { RequestOrder } from './RequestOrder.js';
import type { RetryPauses } from './RetryPauses.js';

/** Bounds of the size estimate used for admission (Flow allows 3 MB at most). */
const COLLECTION_BYTES = { weight: 1 / 16, initial: 16 * 1024, min: 512, max: 3 * 1024 * 1024 };
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

interface Parts {
  readonly nodes: Pick<AccessNodes, 'succeeded' | 'report'>;
  readonly collectionNodes: CollectionNodes;
  readonly order: RequestOrder;
  readonly pauses: RetryPauses;
  readonly sink: Pick<CollectionSink, 'onCollection'>;
  /** A node failed, and a new head would end the pauses. */
  readonly onFailing: () => void;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'requestToReceive' | 'invalidCollections'>;
}

/**
 * Handles the outcome of each call: a verified collection goes to the sink; a failure is reported and recorded, and its
 * id pauses. Unexpected errors are thrown.
 */
export class CallOutcomes {
  readonly #parts: Parts;
  readonly #nodes: CollectionNodes;
  readonly #reporter: FaultReporter;
  readonly #verificationMemory = new VerificationMemory();
  readonly #collectionBytes = new RunningAverage(COLLECTION_BYTES);

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#nodes = parts.collectionNodes;
    this.#reporter = new FaultReporter({ source: 'requester' }, parts);
  }

  /** The expected size of a collection. */
  get collectionBytes(): number {
    return this.#collectionBytes.value ?? 0;
  }

  answered({ wanted, node, way, bodies, sentAtMs, receivedAtMs }: Answer): void {
    const { metrics, pauses, sink } = this.#parts;
    let collection: VerifiedCollection;
    try {
      collection = verifyCollection(wanted.id, bodies, this.#verificationMemory);
    } catch (error) {
      this.failed({ wanted, node, way }, error, false);
      return;
    }
    this.#nodes.gave(wanted, node, way, sentAtMs);
    this.#reporter.succeeded(node, way);
    this.#collectionBytes.observe(collection.encoded.byteLength);
    metrics.requestToReceive.observe((receivedAtMs - (wanted.firstAskedAtMs ?? receivedAtMs)) / 1000);
    pauses.gave(wanted, node);
    wanted.isAskedFor = false;
    sink.onCollection({ collection, source: 'requester', receivedAtMs });
  }

  /** A transaction was refused by the rate limit; the call continues. */
  refused(question: Question, error: unknown): void {
    const failure = judgeFailure(error);
    if (failure !== undefined) remember(question, failure);
  }

  failed({ wanted, node, way }: Question, error: unknown, cancelled: boolean): void {
    const { order, pauses } = this.#parts;
    const failure = judgeFailure(error);
    if (cancelled) {
      if (failure === undefined && !isAbort(error)) throw error;
      // It has been wanted again since, and only had to wait for the cancelled call.
      if (wanted.isWanted) order.makeAskable(wanted);
      return;
    }
    if (failure === undefined || !wanted.isWanted) throw error;
    this.#reporter.report(node, way, failure, wanted.heights[0]?.height, { collectionId: wanted.id });
    if (failure.fault !== undefined) this.#nodes.failed(node, way);
    remember({ wanted, node, way }, failure);
    pauses.failed(wanted, node, failure, this.#nodes.isUntried(wanted));
    if (pauses.awaitsHead) this.#parts.onFailing();
  }
}

/** Classifies the error of one attempt; `undefined` if it is unexpected. */
function judgeFailure(error: unknown): RequestFailure | undefined {
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
function remember({ wanted, node, way }: Question, failure: RequestFailure): void {
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
