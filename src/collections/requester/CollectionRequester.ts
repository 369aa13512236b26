import type { AccessNodes } from '../../access/index.js';
import { VerificationMemory, verifyCollection } from '../../flow/index.js';
import type { Identifier, VerifiedCollection } from '../../flow/index.js';
import { HeightRecord } from '../heights/HeightRecord.js';
import type { MissingCollectionQueue } from '../heights/MissingCollectionQueue.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { AbortError, isAbort, RunningAverage } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import type { Answer } from './calls/ResponseQueue.js';
import { CollectionCalls } from './calls/CollectionCalls.js';
import { CollectionNodes } from './nodes/CollectionNodes.js';
import { TimerQueue } from './order/TimerQueue.js';
import { EndpointSlots } from './nodes/EndpointSlots.js';
import type { SlotUse } from './nodes/EndpointSlots.js';
import { FaultReporter } from '../sources/FaultReporter.js';
import { FetchRate } from './FetchRate.js';
import { EdiPreference } from './order/EdiPreference.js';
import type {
  BlockWindow,
  CollectionRequests,
  CollectionSink,
  ExecutionDataForecast,
  HeldBackNode,
  RequestTrail,
} from '../ports.js';
import { judgeFailure } from './requestFailure.js';
import { remember, trailOf } from './requestRecord.js';
import type { Question } from './requestRecord.js';
import { RetryPauses } from './order/RetryPauses.js';
import { RequestOrder } from './order/RequestOrder.js';
import type { WantedCollection } from '../heights/WantedCollection.js';

export interface CollectionRequesterOptions {
  /** Calls under way at once, per access node (`requester.concurrency`). */
  readonly concurrency: number;
  /** Collection calls under way at once for one height. */
  readonly workersPerHeight: number;
  /** Deadline of a call; a silent node is given up sooner while there is another way or node to ask. */
  readonly timeoutMs: number;
  /** Pause before an id is requested again: doubles from here … */
  readonly backoffMinMs: number;
  /** … up to here. */
  readonly backoffMaxMs: number;
  /** For a range of history. Default: for the live range. */
  readonly isHistory?: boolean;
  /**
   * How long a height's requests wait at most for an execution-data stream that is expected to deliver it; 0 = never.
   */
  readonly holdBackMs: number;
}

export interface CollectionRequesterDependencies {
  /** Where the heights and their collections are looked up. */
  readonly mcq: MissingCollectionQueue;
  readonly nodes: Pick<AccessNodes, 'forHeight' | 'succeeded' | 'report'>;
  /** Takes the collection into `mcq`. */
  readonly sink: Pick<CollectionSink, 'onCollection'>;
  readonly window: Pick<BlockWindow, 'admits' | 'changed' | 'headHeight'>;
  /** Absent when execution data is not followed. */
  readonly outlook?: ExecutionDataForecast | undefined;
  /** Shared by the requesters of all ranges: history uses what the live range leaves. Default: its own. */
  readonly slots?: EndpointSlots | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Pick<
    Metrics,
    | 'collectionsRequested'
    | 'requestsCancelled'
    | 'requestsHeldBack'
    | 'requestToReceive'
    | 'invalidCollections'
  >;
  /** Called with unexpected errors, from a call or from the sink; the owner stops the process. */
  onFatal(error: unknown): void;
}

/** Bounds of the size estimate used for admission (Flow allows 3 MB at most). */
const COLLECTION_BYTES = { weight: 1 / 16, initial: 16 * 1024, min: 512, max: 3 * 1024 * 1024 };

/** Within this distance of the head a block is new: its nodes may not have its collections yet. */
const NEW_HEIGHTS = 3;

/**
 * Requests collections by id from access nodes, lowest height first (onflow/flow-go#8117: a random order starves the
 * one height that moves the watermark). Each id is requested as soon as a slot is free, never twice at once, until it
 * arrives. Attempts are unlimited; what is no longer wanted is cancelled at once.
 *
 * Bounds: calls by `concurrency` per node and `workersPerHeight` per height; remembered ids by the window; one timer;
 * one wait for the window.
 */
export class CollectionRequester implements CollectionRequests {
  readonly #options: CollectionRequesterOptions;
  readonly #dependencies: CollectionRequesterDependencies;
  readonly #mcq: MissingCollectionQueue;
  readonly #order: RequestOrder;
  readonly #nodes: CollectionNodes;
  readonly #pauses: RetryPauses;
  readonly #pace: FetchRate;
  readonly #collectionBytes = new RunningAverage(COLLECTION_BYTES);
  /** Ids that pause before their next attempt and heights that are held back, by the end of the wait. */
  readonly #due: TimerQueue<WantedCollection | HeightRecord>;
  readonly #calls: CollectionCalls;
  readonly #holdBack: EdiPreference;
  readonly #verificationMemory = new VerificationMemory();
  readonly #reporter: FaultReporter;
  readonly #leaveSlots: () => void;
  readonly #stopping = new AbortController();
  #watchingWindow = false;
  #pumping = false;

  constructor(options: CollectionRequesterOptions, dependencies: CollectionRequesterDependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
    this.#mcq = dependencies.mcq;
    this.#order = new RequestOrder(options, dependencies);
    const slots = dependencies.slots ?? new EndpointSlots({ concurrency: options.concurrency });
    this.#nodes = new CollectionNodes(options, { ...dependencies, slots });
    this.#pace = new FetchRate(dependencies);
    this.#reporter = new FaultReporter({ source: 'requester' }, dependencies);
    this.#due = new TimerQueue({
      clock: dependencies.clock,
      onDue: (keys) => this.#onDue(keys),
    });
    this.#pauses = new RetryPauses(options, { ...dependencies, order: this.#order, due: this.#due });
    this.#holdBack = new EdiPreference(options, {
      ...{ outlook: dependencies.outlook, order: this.#order, pace: this.#pace },
      ...{ clock: dependencies.clock, metrics: dependencies.metrics },
    });
    this.#calls = new CollectionCalls(options, {
      ...{ mcq: this.#mcq, nodes: this.#nodes, slots, order: this.#order, pace: this.#pace },
      ...{ clock: dependencies.clock, metrics: dependencies.metrics },
      onAnswer: (answer) => this.#take(answer),
      onRefused: (question, error) => {
        const failure = judgeFailure(error);
        if (failure !== undefined) remember(question, failure);
      },
      onFailure: (question, error, cancelled) => this.#onFailure(question, error, cancelled),
      onRoom: () => this.#pump(),
      onFatal: (error) => dependencies.onFatal(error),
    });
    this.#leaveSlots = slots.onFreed(options.isHistory === true ? 'history' : 'live', () =>
      this.#pumpSafely(),
    );
  }

  request(height: number): void {
    const record = this.#mcq.get(height);
    if (this.#stopping.signal.aborted || record === undefined) return;
    this.#order.add(record);
    this.#pauses.sawHead(this.#dependencies.window.headHeight());
    if (height > this.#pauses.headHeight - NEW_HEIGHTS) this.#awaitArrival(height);
    this.#pump();
  }

  cancel(height: number, ids: readonly Identifier[]): void {
    const record = this.#mcq.get(height);
    if (record?.status !== 'collecting' && record !== undefined) this.#due.delete(record);
    for (const id of ids) {
      const wanted = this.#mcq.wanted(id);
      if (wanted === undefined || (record !== undefined && wanted.isWantedBy(record))) continue;
      if (record !== undefined) this.#order.withdraw(record, wanted);
      if (!wanted.isWanted) this.#leave(wanted);
    }
    this.#pump();
  }

  trail(id: Identifier): RequestTrail | undefined {
    const wanted = this.#mcq.wanted(id);
    return wanted?.isWanted === true ? trailOf(wanted) : undefined;
  }

  heldBack(height: number): readonly HeldBackNode[] {
    return this.#nodes.heldBack(height);
  }

  /** Collection calls under way. */
  inFlight(): number {
    return this.#calls.underWay;
  }

  /** Cancels every call and requests nothing more. Resolves when the calls have returned. Idempotent. */
  async stop(): Promise<void> {
    if (!this.#stopping.signal.aborted) this.#stopping.abort(new AbortError('stopping'));
    this.#due.clear();
    this.#leaveSlots();
    await this.#calls.stop();
  }

  #leave(wanted: WantedCollection): void {
    this.#due.delete(wanted);
    wanted.forget();
    this.#calls.cancel(wanted);
  }

  #onDue(keys: readonly (WantedCollection | HeightRecord)[]): void {
    for (const key of keys) {
      if (key instanceof HeightRecord) this.#order.release(key);
      else this.#order.makeAskable(key);
    }
    this.#pumpSafely();
  }

  #pumpSafely(): void {
    try {
      this.#pump();
    } catch (error) {
      this.#dependencies.onFatal(error);
    }
  }

  /** Sends whatever may be sent now, lowest height first. If the lowest height cannot send, no other overtakes it. */
  #pump(): void {
    if (this.#pumping || this.#stopping.signal.aborted) return;
    this.#pumping = true;
    this.#due.lookAgainIn(undefined);
    for (;;) {
      const record = this.#order.next();
      const wanted = record && this.#order.nextAt(record);
      if (record === undefined || wanted === undefined) {
        this.#pace.idles();
        break;
      }
      const { height } = record;
      const heldForMs = this.#holdBack.hold(record);
      if (heldForMs !== undefined) {
        this.#due.set(record, heldForMs);
        continue;
      }
      if (!this.#isAdmitted(height)) {
        this.#pace.idles();
        this.#watchWindow();
        break;
      }
      const use = this.#useFor(height);
      const choice = this.#nodes.choose(height, wanted, use);
      if (choice.node === undefined) {
        this.#due.lookAgainIn(choice.retryInMs);
        break;
      }
      this.#calls.send(wanted, record, choice, use);
    }
    this.#pumping = false;
  }

  #useFor(height: number): SlotUse {
    if (this.#options.isHistory === true) return 'history';
    return height === this.#mcq.lowest() ? 'lowest' : 'other';
  }

  /** Counts what the calls under way will bring, because the window only counts what has arrived. */
  #isAdmitted(height: number): boolean {
    const bytes = (this.#collectionBytes.value ?? 0) * (this.#calls.underWay + 1);
    return this.#dependencies.window.admits(height, bytes);
  }

  #watchWindow(): void {
    if (this.#watchingWindow) return;
    this.#watchingWindow = true;
    this.#dependencies.window
      .changed(this.#stopping.signal)
      .then(() => {
        this.#watchingWindow = false;
        this.#pauses.sawHead(this.#dependencies.window.headHeight());
        if (this.#pauses.awaitsHead) this.#watchWindow();
        this.#pump();
      })
      .catch((error: unknown) => {
        if (!this.#stopping.signal.aborted) this.#dependencies.onFatal(error);
      });
  }

  /** Requests the collections of a new block when the fastest node usually has them. */
  #awaitArrival(height: number): void {
    const nowMs = this.#dependencies.clock.monotonic();
    const delayMs = this.#nodes.untilFirstHasMs(height);
    for (const wanted of this.#order.wantedAt(height)) {
      if (wanted.attempts > 0 || wanted.newSinceMs !== undefined) continue;
      wanted.newSinceMs = nowMs;
      if (delayMs < 1 || wanted.call !== undefined) continue;
      this.#order.pause(wanted);
      this.#due.set(wanted, delayMs);
    }
  }

  #take({ wanted, node, way, bodies, sentAtMs, receivedAtMs }: Answer): void {
    const { metrics, sink } = this.#dependencies;
    let collection: VerifiedCollection;
    try {
      collection = verifyCollection(wanted.id, bodies, this.#verificationMemory);
    } catch (error) {
      this.#onFailure({ wanted, node, way }, error, false);
      return;
    }
    this.#nodes.gave(wanted, node, way, sentAtMs);
    this.#reporter.succeeded(node, way);
    this.#collectionBytes.observe(collection.encoded.byteLength);
    metrics.requestToReceive.observe((receivedAtMs - (wanted.firstAskedAtMs ?? receivedAtMs)) / 1000);
    this.#pauses.gave(wanted, node);
    wanted.isAskedFor = false;
    sink.onCollection({ collection, source: 'requester', receivedAtMs });
  }

  #onFailure({ wanted, node, way }: Question, error: unknown, cancelled: boolean): void {
    const failure = judgeFailure(error);
    if (cancelled) {
      if (failure === undefined && !isAbort(error)) throw error;
      // Wanted again since: it only had to wait for the cancelled call.
      if (wanted.isWanted) this.#order.makeAskable(wanted);
      return;
    }
    if (failure === undefined || !wanted.isWanted) throw error;
    this.#reporter.report(node, way, failure, wanted.heights[0]?.height, { collectionId: wanted.id });
    if (failure.fault !== undefined) this.#nodes.failed(node, way);
    remember({ wanted, node, way }, failure);
    this.#pauses.failed(wanted, node, failure, this.#nodes.isUntried(wanted));
    if (this.#pauses.awaitsHead) this.#watchWindow();
  }
}
