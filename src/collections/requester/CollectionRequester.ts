import type { AccessNode, AccessNodes } from '../../access/index.js';
import { VerificationMemory, verifyCollection } from '../../flow/index.js';
import type { Identifier, VerifiedCollection } from '../../flow/index.js';
import type { HeightRecord } from '../heights/HeightRecord.js';
import type { MissingCollectionQueue } from '../heights/MissingCollectionQueue.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { AbortError, isAbort, RunningAverage } from '../../runtime/index.js';
import type { Clock, Random, Timer } from '../../runtime/index.js';
import { collectionNodes, type CollectionChoice } from './collectionNodes.js';
import { endpointSlots, type EndpointSlots, type SlotUse } from './endpointSlots.js';
import { fetchCollection } from './fetchCollection.js';
import type { CollectionSink, CollectionWay, ExecutionDataForecast } from '../ports.js';
import { requestOrder } from './requestOrder.js';
import { faultIn, faultReporter } from '../faultReporter.js';
import type { WantedCollection } from '../heights/WantedCollection.js';
import type { Window } from '../heights/Window.js';

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
  /** True: for a range of history. Default: for the live range. */
  readonly isHistory?: boolean;
  /**
   * How long a height's requests wait at most for an execution-data stream that is expected to deliver it; 0 = never.
   */
  readonly holdBackMs: number;
}

export interface CollectionRequesterDependencies {
  readonly mcq: MissingCollectionQueue;
  readonly nodes: Pick<AccessNodes, 'forHeight' | 'succeeded' | 'report'>;
  /** Takes the collection into `mcq`. */
  readonly sink: Pick<CollectionSink, 'onCollection'>;
  readonly window: Pick<Window, 'admits' | 'changed' | 'target'>;
  /** Absent when execution data is not followed. */
  readonly forecast?: ExecutionDataForecast | undefined;
  /** Shared by the requesters of all ranges: history uses the slots that the live range leaves. Default: its own. */
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

/** A good value for `holdBackMs`. The silence of a stream costs less: it is then no longer expected to deliver. */
export const DEFAULT_HOLD_BACK_MS = 2_000;
/**
 * While the fetch time is unknown, heights that the stream is expected to deliver within this time are held back; later
 * ones are requested, which measures the fetch time.
 */
const UNTRIED_FETCH_MS = 500;
/** The weight of one answer in the averages of the pace. */
const PACE = { weight: 1 / 32 };
/** How long answers are processed before yielding to the event loop, so that the next calls can be sent. */
const TURN_MS = 2;

/** Bounds of the size estimate used for admission (Flow allows 3 MB at most). */
const COLLECTION_BYTES = { weight: 1 / 16, initial: 16 * 1024, min: 512, max: 3 * 1024 * 1024 };

/** One call: what is requested, from which node, and how. */
interface Question {
  readonly wanted: WantedCollection;
  readonly node: AccessNode;
  readonly way: CollectionWay;
}

/** A collection as a node sent it, not verified yet. */
interface Answer extends Question {
  readonly bodies: readonly Uint8Array[];
  /** Monotonic milliseconds. */
  readonly receivedAtMs: number;
}

/**
 * Requests collections by id from access nodes, lowest height first (onflow/flow-go#8117: a random order starves the
 * one height that moves the watermark). Each id is requested as soon as a slot is free, never twice at once, until it
 * arrives. Attempts are unlimited; what is no longer wanted is cancelled at once.
 *
 * A call lasts from taking its slot until its answer is processed, or it has failed. An answer passes its
 * slot on before it is verified, so that the node works while we do. Answers are processed in order of arrival, in turns
 * of the event loop: a connection sends only between turns, so a burst in a single turn would leave the node idle. A
 * verified collection goes to the sink; a failure is reported and recorded, and its id pauses.
 *
 * Every call ends in `#over`, whatever becomes of it: that releases the slot, which is shared with other requesters.
 *
 * Bounds: calls by `concurrency` per node and `workersPerHeight` per height; answers that passed their slot on by
 * `concurrency`; remembered ids and their pauses by the window; one timer for answers; one wait for the window.
 */
export class CollectionRequester {
  readonly #options: CollectionRequesterOptions;
  readonly #dependencies: CollectionRequesterDependencies;
  readonly #order: ReturnType<typeof requestOrder>;
  readonly #nodes: ReturnType<typeof collectionNodes>;
  readonly #slots: EndpointSlots;
  readonly #reporter: ReturnType<typeof faultReporter>;
  readonly #verificationMemory = new VerificationMemory();
  readonly #collectionBytes = new RunningAverage(COLLECTION_BYTES);
  /** Answers that wait to be processed, and may have passed their slots on already. */
  readonly #answers: Answer[] = [];
  /** Set while answers wait for their turn. */
  #turn: Timer | undefined;
  /** Collection calls; a light collection with its transactions counts as one. */
  #underWay = 0;
  readonly #callMs = new RunningAverage(PACE);
  readonly #intervalMs = new RunningAverage(PACE);
  /** The time of the last answer; `undefined` if at some moment since then no call had to wait. */
  #answeredAtMs: number | undefined;
  readonly #leaveSlots: () => void;
  readonly #stopping = new AbortController();
  #watchingWindow = false;
  #pumping = false;

  constructor(options: CollectionRequesterOptions, dependencies: CollectionRequesterDependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
    this.#order = requestOrder({ ...options, ...dependencies, onDue: () => this.#pump() });
    const slots = dependencies.slots ?? endpointSlots(options.concurrency);
    this.#slots = slots;
    this.#nodes = collectionNodes(options.timeoutMs, { ...dependencies, slots });
    this.#reporter = faultReporter('requester', dependencies);
    this.#leaveSlots = slots.onFreed(options.isHistory === true ? 'history' : 'live', () => this.#pump());
  }

  /** Requests what this height lacks. An id is never requested twice. */
  request(height: number): void {
    const record = this.#dependencies.mcq.get(height);
    if (this.#stopping.signal.aborted || record === undefined) return;
    this.#order.sawHead(this.#dependencies.window.target() ?? 0);
    this.#order.add(record);
    this.#pump();
  }

  /** A height no longer lacks these: cancels calls for those that no other height lacks. */
  cancel(ids: readonly Identifier[]): void {
    for (const id of ids) {
      const wanted = this.#dependencies.mcq.wanted(id);
      if (wanted?.isWanted === false) this.#leave(wanted);
    }
    this.#pump();
  }

  /** Nodes whose rate limit delays calls for this height, and until when. */
  heldBack(height: number) {
    return this.#nodes.heldBack(height);
  }

  inFlight(): number {
    return this.#underWay;
  }

  /** Cancels every call, drops the answers and requests nothing more. Resolves when the calls have returned. Idempotent. */
  async stop(): Promise<void> {
    const reason = new AbortError('stopping');
    if (!this.#stopping.signal.aborted) this.#stopping.abort(reason);
    this.#order.stop();
    this.#leaveSlots();
    this.#turn?.cancel();
    for (const { wanted } of this.#answers.splice(0)) this.#over(wanted);
    const calls = Array.from(this.#dependencies.mcq.allWanted()).flatMap(({ call }) => call ?? []);
    for (const { controller } of calls) controller.abort(reason);
    await Promise.all(calls.map((call) => call.returned));
  }

  /** No height wants the collection any longer: a call under way is cancelled, and removes the entry when it returns. */
  #leave(wanted: WantedCollection): void {
    this.#order.endPause(wanted);
    wanted.forget();
    const { call } = wanted;
    if (call === undefined) this.#dependencies.mcq.letGo(wanted);
    else if (!call.isAnswered && !call.controller.signal.aborted) {
      this.#dependencies.metrics.requestsCancelled.inc();
      call.controller.abort(new AbortError('the collection is no longer wanted'));
    }
  }

  /** Never throws: its callers are not to blame for a bug in here, and must not swallow it. */
  #pump(): void {
    if (this.#pumping || this.#stopping.signal.aborted) return;
    this.#pumping = true;
    try {
      this.#sendAll();
    } catch (error) {
      this.#dependencies.onFatal(error);
    } finally {
      this.#pumping = false;
    }
  }

  /** Sends all requests that may be sent now, lowest height first. If the lowest cannot send, no other overtakes it. */
  #sendAll(): void {
    this.#order.lookAgainIn(Infinity);
    for (;;) {
      const next = this.#order.next();
      if (next === undefined) {
        // Everything that may be requested has been: from now on the pace depends on demand, not on the nodes.
        this.#answeredAtMs = undefined;
        break;
      }
      const { record, wanted } = next;
      const { height } = record;
      if (this.#isHeldBack(record)) continue;
      // With the bytes that the calls under way will bring: the window only counts what has arrived.
      const bytes = (this.#collectionBytes.value ?? 0) * (this.#underWay + 1);
      if (!this.#dependencies.window.admits(height, bytes)) {
        this.#answeredAtMs = undefined;
        this.#watchWindow();
        break;
      }
      const isLowest = height === this.#dependencies.mcq.lowest();
      const use = this.#options.isHistory === true ? 'history' : isLowest ? 'lowest' : 'other';
      const choice = this.#nodes.choose(height, wanted, use);
      if (choice.node === undefined) {
        this.#order.lookAgainIn(choice.retryInMs);
        break;
      }
      this.#send(wanted, record, choice, use);
    }
  }

  /**
   * Holds a height back while the stream is expected to deliver it sooner than a request would, and never longer than
   * `holdBackMs` (docs/decisions/0003-hold-back.md). Decides when a call is about to be sent, not when it is queued: the
   * stream may have caught up meanwhile, or fallen silent. False: it may be requested.
   */
  #isHeldBack(record: HeightRecord): boolean {
    const { metrics, forecast } = this.#dependencies;
    const { holdBackMs } = this.#options;
    const { height, requests } = record;
    if (holdBackMs <= 0 || forecast === undefined) return false;
    const [call = UNTRIED_FETCH_MS, interval] = [this.#callMs.value, this.#intervalMs.value];
    // Measured from answer to answer, and only while nodes, slots or rate limits kept further calls waiting.
    const fetchMs =
      interval === undefined ? UNTRIED_FETCH_MS : call + this.#order.countThrough(height) * interval;
    if (!forecast.expects(height, Math.min(fetchMs, holdBackMs))) return false;
    if (requests?.holdEndsAtMs === undefined) metrics.requestsHeldBack.inc();
    return this.#order.hold(record);
  }

  #watchWindow(): void {
    if (this.#watchingWindow) return;
    this.#watchingWindow = true;
    this.#dependencies.window
      .changed(this.#stopping.signal)
      .then(() => {
        this.#watchingWindow = false;
        this.#order.sawHead(this.#dependencies.window.target() ?? 0);
        if (this.#order.awaitsHead()) this.#watchWindow();
        this.#pump();
      })
      .catch((error: unknown) => {
        if (!this.#stopping.signal.aborted) this.#dependencies.onFatal(error);
      });
  }

  /** Throws unless a slot of the chosen node is free for this use. */
  #send(
    wanted: WantedCollection,
    sentFor: HeightRecord,
    { node, way, timeoutMs }: CollectionChoice & { readonly node: AccessNode },
    use: SlotUse,
  ): void {
    const { clock, metrics } = this.#dependencies;
    const controller = new AbortController();
    const release = this.#slots.tryAcquire(node.name, use);
    if (release === undefined) throw new Error('a call was sent without a slot');
    const call = { sentFor, controller, release, returned: Promise.resolve(), isAnswered: false };
    metrics.collectionsRequested.inc();
    this.#order.sent(wanted, call);
    this.#underWay += 1;
    wanted.attempts += 1;
    wanted.lastNode = node.name;
    wanted.lastWay = way;
    wanted.sentAtMs = clock.monotonic();
    wanted.firstAskedAtMs ??= wanted.sentAtMs;
    wanted.lastAskedAt = clock.now();
    call.returned = this.#call({ wanted, node, way }, use, timeoutMs, controller.signal).catch(
      (error: unknown) => this.#dependencies.onFatal(error),
    );
  }

  async #call(question: Question, use: SlotUse, timeoutMs: number, signal: AbortSignal): Promise<void> {
    const { wanted, node, way } = question;
    const { clock } = this.#dependencies;
    let bodies: readonly Uint8Array[] | undefined;
    let failure: { readonly error: unknown } | undefined;
    this.#nodes.sent(node, way);
    try {
      bodies = await fetchCollection(wanted.id, node, way, {
        timeoutMs,
        signal,
        // The call continues: `explain` can name the cause before it ends.
        onRefused: (error) => {
          const fault = faultIn(error);
          if (fault !== undefined) wanted.failed(node.name, way, fault);
        },
        tryAcquireSlot: () => {
          const release = this.#slots.tryAcquire(node.name, use);
          if (release === undefined) return undefined;
          return () => {
            release();
            this.#pump();
          };
        },
      });
    } catch (error) {
      failure = { error };
    }
    const receivedAtMs = clock.monotonic();
    this.#nodes.returned(node, way, wanted.sentAtMs, failure?.error);
    if (bodies !== undefined && !this.#stopping.signal.aborted) {
      this.#callMs.observe(receivedAtMs - wanted.sentAtMs);
      if (this.#answeredAtMs !== undefined) this.#intervalMs.observe(receivedAtMs - this.#answeredAtMs);
      this.#answeredAtMs = receivedAtMs;
      if (wanted.call !== undefined) wanted.call.isAnswered = true;
      if (this.#answers.length < this.#options.concurrency) wanted.call?.release();
      this.#answers.push({ wanted, node, way, bodies, receivedAtMs });
      this.#nextTurn();
      this.#pump();
      return;
    }
    this.#over(wanted);
    try {
      if (failure !== undefined) this.#failed(question, failure.error, signal.aborted);
    } finally {
      this.#pump();
    }
  }

  /** Processes answers in a separate turn of the event loop, and the rest in further turns. */
  #nextTurn(): void {
    const { clock } = this.#dependencies;
    this.#turn ??= clock.setTimer(0, () => {
      this.#turn = undefined;
      const endsAtMs = clock.monotonic() + TURN_MS;
      try {
        do {
          const next = this.#answers.shift();
          if (next === undefined) break;
          this.#over(next.wanted);
          if (next.wanted.isWanted) this.#answered(next);
        } while (clock.monotonic() < endsAtMs);
      } catch (error) {
        this.#dependencies.onFatal(error);
      } finally {
        if (this.#answers.length > 0) this.#nextTurn();
        this.#pump();
      }
    });
  }

  #answered({ wanted, node, way, bodies, receivedAtMs }: Answer): void {
    const { metrics, sink } = this.#dependencies;
    let collection: VerifiedCollection;
    try {
      collection = verifyCollection(wanted.id, bodies, this.#verificationMemory);
    } catch (error) {
      this.#failed({ wanted, node, way }, error, false);
      return;
    }
    this.#nodes.gave(wanted, node, way);
    this.#reporter.succeeded(node, way);
    this.#collectionBytes.observe(collection.encoded.byteLength);
    metrics.requestToReceive.observe((receivedAtMs - (wanted.firstAskedAtMs ?? receivedAtMs)) / 1000);
    this.#order.gave(wanted, node);
    wanted.isAskedFor = false;
    sink.onCollection({ collection, source: 'requester', receivedAtMs });
  }

  /** Rethrows unexpected errors. */
  #failed({ wanted, node, way }: Question, error: unknown, cancelled: boolean): void {
    const failure = faultIn(error);
    if (cancelled) {
      if (failure === undefined && !isAbort(error)) throw error;
      // It has been wanted again since, and only had to wait for the cancelled call.
      if (wanted.isWanted) this.#order.makeAskable(wanted);
      return;
    }
    if (failure === undefined || !wanted.isWanted) throw error;
    // The other call is used at once.
    if (failure.reason === 'unimplemented' && this.#nodes.hasOther(node, way)) {
      this.#order.makeAskable(wanted);
      return;
    }
    // Requesting a collection by its id is always a valid request.
    const isRefusal = failure.reason === 'invalid_argument' || failure.reason === 'failed_precondition';
    const fault = isRefusal ? 'failing' : failure.fault;
    const height = wanted.heights[0]?.height;
    this.#reporter.report(node, way, { ...failure, fault }, height, { collectionId: wanted.id });
    if (fault !== undefined) this.#nodes.failed(node, way);
    wanted.failed(node.name, way, failure);
    this.#order.failed(wanted, node, failure, this.#nodes.isUntried(wanted));
    if (this.#order.awaitsHead()) this.#watchWindow();
  }

  /** The call is over. Its collection may no longer be wanted. */
  #over(wanted: WantedCollection): void {
    wanted.call?.release();
    this.#underWay -= 1;
    this.#order.returned(wanted);
    if (!wanted.isWanted) this.#dependencies.mcq.letGo(wanted);
  }
}
