import type { AccessNodes } from '../../access/index.js';
import { VerificationMemory, verifyCollection } from '../../flow/index.js';
import type { VerifiedCollection } from '../../flow/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { isAbort, RunningAverage } from '../../runtime/index.js';
import type { CollectionSink } from '../ports.js';
import { FaultReporter } from '../sources/FaultReporter.js';
import type { Answer } from './calls/CollectionCalls.js';
import type { CollectionNodes } from './nodes/CollectionNodes.js';
import type { RequestOrder } from './order/RequestOrder.js';
import type { RetryPauses } from './order/RetryPauses.js';
import { judgeFailure } from './requestFailure.js';
import { remember } from './requestRecord.js';
import type { Question } from './requestRecord.js';

/** Bounds of the size estimate used for admission (Flow allows 3 MB at most). */
const COLLECTION_BYTES = { weight: 1 / 16, initial: 16 * 1024, min: 512, max: 3 * 1024 * 1024 };

export interface CallOutcomesDependencies {
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
  readonly #deps: CallOutcomesDependencies;
  readonly #nodes: CollectionNodes;
  readonly #reporter: FaultReporter;
  readonly #verificationMemory = new VerificationMemory();
  readonly #collectionBytes = new RunningAverage(COLLECTION_BYTES);

  constructor(dependencies: CallOutcomesDependencies) {
    this.#deps = dependencies;
    this.#nodes = dependencies.collectionNodes;
    this.#reporter = new FaultReporter({ source: 'requester' }, dependencies);
  }

  /** The expected size of a collection. */
  get collectionBytes(): number {
    return this.#collectionBytes.value ?? 0;
  }

  answered({ wanted, node, way, bodies, sentAtMs, receivedAtMs }: Answer): void {
    const { metrics, pauses, sink } = this.#deps;
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
    const { order, pauses } = this.#deps;
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
    if (pauses.awaitsHead) this.#deps.onFailing();
  }
}
