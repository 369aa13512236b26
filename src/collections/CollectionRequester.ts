import type { AccessNode, AccessNodes } from '../access/index.js';
import { VerificationMemory, verifyCollection } from '../flow/index.js';
import type { Identifier, VerifiedCollection } from '../flow/index.js';
import type { Logger, Metrics } from '../observability/index.js';
import { AbortError, backoffMs, isAbort } from '../runtime/index.js';
import type { Clock, Random } from '../runtime/index.js';
import { AnswerQueue } from './AnswerQueue.js';
import type { Answer } from './AnswerQueue.js';
import { ByteEstimate } from './ByteEstimate.js';
import { DueTimer } from './DueTimer.js';
import { EndpointSlots } from './EndpointSlots.js';
import type { SlotUse } from './EndpointSlots.js';
import { FaultReporter } from './FaultReporter.js';
import { fetchCollection } from './fetchCollection.js';
import { FetchPace } from './FetchPace.js';
import { HoldBack } from './HoldBack.js';
import type { CollectionWay } from './fetchCollection.js';
import type { NodeChoice } from './NodeRotation.js';
import type {
  BlockWindow,
  CollectionRequests,
  CollectionSink,
  ExecutionDataOutlook,
  NodeFailures,
  RequestTrail,
} from './ports.js';
import { judgeFailure } from './requestFailure.js';
import { WantedCollections } from './WantedCollections.js';
import type { WantedCollection } from './WantedCollections.js';

export interface CollectionRequesterOptions {
  /** Calls under way at once, per access node (`requester.concurrency`). */
  readonly concurrency: number;
  /** Collection calls under way at once for one height. */
  readonly workersPerHeight: number;
  /** Deadline of every call. */
  readonly timeoutMs: number;
  /** Pause before an id is asked for again: doubles from here … */
  readonly backoffMinMs: number;
  /** … up to here. */
  readonly backoffMaxMs: number;
  /** How long a height's requests wait at most for an execution-data stream that is about to deliver it; 0 = never. */
  readonly holdBackMs: number;
}

export interface CollectionRequesterDependencies {
  readonly nodes: Pick<AccessNodes, 'forHeight' | 'succeeded' | 'blame'>;
  readonly sink: Pick<CollectionSink, 'onCollection'>;
  readonly window: Pick<BlockWindow, 'admits' | 'changed'>;
  /** Absent where execution data is not followed. */
  readonly outlook?: ExecutionDataOutlook | undefined;
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
  /** Takes errors that nobody expected, from a call or from the sink; the owner stops the process. */
  onFatal(error: unknown): void;
}

/** While no node at all serves a height, how often the list is looked at again. */
const NO_NODE_RETRY_MS = 1_000;

/** What a collection may weigh: the bounds of the estimate by which a call is admitted (Flow allows 3 MB at most). */
const COLLECTION_BYTES = { initialBytes: 16 * 1024, minBytes: 512, maxBytes: 3 * 1024 * 1024 };

const NO_FAILURES: RequestTrail['failures'] = new Map();

/** What is asked, of whom, by which call. */
interface Question {
  readonly id: Identifier;
  readonly node: AccessNode;
  readonly way: CollectionWay;
  readonly use: SlotUse;
}

/** One call under way. */
interface Call {
  readonly controller: AbortController;
  readonly returned: Promise<void>;
  /** Nothing is left to cancel. */
  isAnswered: boolean;
}

/**
 * Asks access nodes for collections by id, lowest height first (onflow/flow-go#8117: a random order starves the one
 * height that moves the watermark), each id as soon as a slot is free and never twice at once, until it comes: attempts
 * are unlimited, and what is no longer wanted is cancelled at once.
 *
 * An answer gives its slot to the next call before it is verified, so that the node has work while we have.
 *
 * Bounds: the calls by `concurrency` per node and `workersPerHeight` per height; answers that gave their slot away by
 * `concurrency`; what is remembered by the ids of the heights that want them, that is by the window; one timer; one wait
 * for the window.
 */
export class CollectionRequester implements CollectionRequests {
  readonly #options: CollectionRequesterOptions;
  readonly #dependencies: CollectionRequesterDependencies;
  readonly #wanted: WantedCollections;
  readonly #slots: EndpointSlots;
  readonly #pace: FetchPace;
  readonly #collectionBytes = new ByteEstimate(COLLECTION_BYTES);
  /** Ids that pause before their next attempt, and heights that are held back, by the time at which that ends. */
  readonly #due: DueTimer<Identifier | number>;
  readonly #calls = new Map<Identifier, Call>();
  readonly #answers: AnswerQueue;
  readonly #holdBack: HoldBack;
  readonly #verificationMemory = new VerificationMemory();
  readonly #reporter: FaultReporter;
  readonly #stopping = new AbortController();
  #watchingWindow = false;
  #pumping = false;

  constructor(options: CollectionRequesterOptions, dependencies: CollectionRequesterDependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
    this.#wanted = new WantedCollections({ workersPerHeight: options.workersPerHeight });
    this.#slots = new EndpointSlots({ concurrency: options.concurrency });
    this.#pace = new FetchPace(dependencies);
    this.#reporter = new FaultReporter({ source: 'requester' }, dependencies);
    this.#due = new DueTimer({
      clock: dependencies.clock,
      onDue: (keys) => this.#onDue(keys),
    });
    this.#holdBack = new HoldBack(options, {
      ...{ outlook: dependencies.outlook, wanted: this.#wanted, pace: this.#pace },
      ...{ clock: dependencies.clock, metrics: dependencies.metrics },
    });
    this.#answers = new AnswerQueue({
      clock: dependencies.clock,
      onAnswer: (answer) => this.#verify(answer),
      onTurnEnd: () => this.#pump(),
      onFatal: (error) => dependencies.onFatal(error),
    });
  }

  request(height: number, ids: readonly Identifier[]): void {
    if (this.#stopping.signal.aborted) return;
    this.#wanted.add(height, ids);
    this.#pump();
  }

  cancel(height: number): void {
    this.#due.delete(height);
    for (const wanted of this.#wanted.remove(height)) {
      this.#due.delete(wanted.id);
      const call = this.#calls.get(wanted.id);
      if (call === undefined || call.isAnswered || call.controller.signal.aborted) continue;
      this.#dependencies.metrics.requestsCancelled.inc();
      call.controller.abort(new AbortError('the collection is no longer wanted'));
    }
    this.#pump();
  }

  trail(id: Identifier): RequestTrail | undefined {
    const wanted = this.#wanted.get(id);
    if (wanted === undefined) return undefined;
    const { attempts, lastNode, lastError, lastAskedAt, notFound, failures = NO_FAILURES } = wanted;
    return {
      attempts,
      lastNode,
      lastError,
      lastAskedAt,
      notFound,
      isUnderWay: this.#calls.has(id),
      failures,
    };
  }

  /** Collection calls under way: a light collection with its transactions is one. */
  inFlight(): number {
    return this.#calls.size;
  }

  /** The latest error of a collection that this height still wants. */
  lastError(height: number): string | undefined {
    let latest: WantedCollection | undefined;
    for (const id of this.#wanted.idsOf(height)) {
      const wanted = this.#wanted.get(id);
      if (wanted?.lastError === undefined) continue;
      if ((wanted.lastAskedAt ?? 0) >= (latest?.lastAskedAt ?? 0)) latest = wanted;
    }
    return latest?.lastError;
  }

  /** Cancels every call and asks for nothing more. Resolves when the calls have returned. Idempotent. */
  async stop(): Promise<void> {
    const reason = new AbortError('stopping');
    if (!this.#stopping.signal.aborted) this.#stopping.abort(reason);
    this.#due.clear();
    for (const { id } of this.#answers.clear()) this.#calls.delete(id);
    const calls = [...this.#calls.values()];
    for (const call of calls) {
      if (!call.controller.signal.aborted) call.controller.abort(reason);
    }
    await Promise.all(calls.map((call) => call.returned));
  }

  #onDue(keys: readonly (Identifier | number)[]): void {
    for (const key of keys) {
      if (typeof key === 'number') {
        this.#wanted.release(key);
        continue;
      }
      const wanted = this.#wanted.get(key);
      if (wanted !== undefined) this.#wanted.makeAskable(wanted);
    }
    try {
      this.#pump();
    } catch (error) {
      this.#dependencies.onFatal(error);
    }
  }

  /** Sends whatever may leave now, lowest height first. What stops the lowest height stops all: nobody overtakes it. */
  #pump(): void {
    if (this.#pumping || this.#stopping.signal.aborted) return;
    this.#pumping = true;
    this.#due.lookAgainIn(undefined);
    for (;;) {
      const height = this.#wanted.nextHeight();
      const wanted = height === undefined ? undefined : this.#wanted.nextAt(height);
      if (height === undefined || wanted === undefined) {
        this.#pace.idles();
        break;
      }
      const heldForMs = this.#holdBack.hold(height);
      if (heldForMs !== undefined) {
        this.#due.set(height, heldForMs);
        continue;
      }
      if (!this.#isAdmitted(height)) {
        this.#pace.idles();
        this.#watchWindow();
        break;
      }
      const use = height === this.#wanted.lowestHeight() ? 'lowest' : 'other';
      const choice = this.#chooseNode(height, wanted, use);
      if (choice.node === undefined) {
        this.#due.lookAgainIn(choice.retryInMs);
        break;
      }
      this.#send(wanted, height, choice.node, use);
    }
    this.#pumping = false;
  }

  /** Counts what the calls under way will bring, for the window knows only of what has come. */
  #isAdmitted(height: number): boolean {
    const bytes = this.#collectionBytes.bytes * (this.#calls.size + 1);
    return this.#dependencies.window.admits(height, bytes);
  }

  #watchWindow(): void {
    if (this.#watchingWindow) return;
    this.#watchingWindow = true;
    this.#dependencies.window
      .changed(this.#stopping.signal)
      .then(() => {
        this.#watchingWindow = false;
        this.#pump();
      })
      .catch((error: unknown) => {
        if (!this.#stopping.signal.aborted) this.#dependencies.onFatal(error);
      });
  }

  #chooseNode(height: number, wanted: WantedCollection, use: SlotUse): NodeChoice {
    const all = this.#dependencies.nodes.forHeight(height, 'GetFullCollectionByID');
    if (all.length === 0) return { node: undefined, retryInMs: NO_NODE_RETRY_MS };
    const able = all.filter((node) => node.supports(wayTo(node)));
    return wanted.rotation.choose(able.length > 0 ? able : all, {
      isFree: (node) => this.#slots.isFree(node.name, use),
      delayMs: (node) => node.delayMs(wayTo(node)),
    });
  }

  #send(wanted: WantedCollection, height: number, node: AccessNode, use: SlotUse): void {
    const { clock } = this.#dependencies;
    if (!this.#slots.tryAcquire(node.name, use)) throw new Error('a call left without a slot');
    this.#wanted.sent(wanted, height);
    wanted.attempts += 1;
    wanted.lastNode = node.name;
    wanted.firstAskedAtMs ??= clock.monotonic();
    wanted.lastAskedAt = clock.now();
    const controller = new AbortController();
    const returned = this.#call({ id: wanted.id, node, way: wayTo(node), use }, controller.signal).catch(
      (error: unknown) => {
        this.#dependencies.onFatal(error);
      },
    );
    this.#calls.set(wanted.id, { controller, returned, isAnswered: false });
  }

  async #call({ id, node, way, use }: Question, signal: AbortSignal): Promise<void> {
    const { clock, metrics } = this.#dependencies;
    const sentAtMs = clock.monotonic();
    let bodies: readonly Uint8Array[] | undefined;
    let failure: { readonly error: unknown } | undefined;
    try {
      bodies = await fetchCollection(
        id,
        node,
        way,
        { signal, timeoutMs: this.#options.timeoutMs },
        {
          onCall: () => metrics.collectionsRequested.inc(),
          tryAcquireSlot: () => this.#slots.tryAcquire(node.name, use),
          releaseSlot: () => this.#slots.release(node.name, use),
        },
      );
    } catch (error) {
      failure = { error };
    }
    if (bodies !== undefined) {
      this.#pace.answered(clock.monotonic() - sentAtMs);
      this.#onAnswer({ id, node, way, use }, bodies);
      return;
    }
    this.#slots.release(node.name, use);
    const wanted = this.#returned(id);
    try {
      if (failure !== undefined) this.#onFailure(wanted, { node, way }, failure.error, signal.aborted);
    } finally {
      this.#pump();
    }
  }

  #onAnswer({ id, node, way, use }: Question, bodies: readonly Uint8Array[]): void {
    if (this.#stopping.signal.aborted) return;
    const call = this.#calls.get(id);
    if (call !== undefined) call.isAnswered = true;
    const keepsSlot = this.#answers.length >= this.#options.concurrency;
    if (!keepsSlot) this.#slots.release(node.name, use);
    const receivedAtMs = this.#dependencies.clock.monotonic();
    this.#answers.push({ id, node, way, bodies, receivedAtMs, slotUse: keepsSlot ? use : undefined });
    this.#pump();
  }

  #verify(answer: Answer): void {
    if (answer.slotUse !== undefined) this.#slots.release(answer.node.name, answer.slotUse);
    const wanted = this.#returned(answer.id);
    if (wanted !== undefined) this.#take(wanted, answer);
  }

  /** A call is over. Answers what it was for; `undefined` when that is no longer wanted. */
  #returned(id: Identifier): WantedCollection | undefined {
    this.#calls.delete(id);
    this.#wanted.returned(id);
    return this.#wanted.get(id);
  }

  #take(wanted: WantedCollection, { node, way, bodies, receivedAtMs }: Answer): void {
    const { metrics, sink } = this.#dependencies;
    let collection: VerifiedCollection;
    try {
      collection = verifyCollection(wanted.id, bodies, this.#verificationMemory);
    } catch (error) {
      this.#onFailure(wanted, { node, way }, error, false);
      return;
    }
    this.#reporter.succeeded(node, way);
    this.#collectionBytes.observe(collection.encoded.byteLength);
    metrics.requestToReceive.observe((receivedAtMs - (wanted.firstAskedAtMs ?? receivedAtMs)) / 1000);
    this.#wanted.received(wanted);
    sink.onCollection({ collection, source: 'requester', receivedAtMs });
  }

  #onFailure(
    wanted: WantedCollection | undefined,
    { node, way }: Pick<Question, 'node' | 'way'>,
    error: unknown,
    cancelled: boolean,
  ): void {
    const failure = judgeFailure(error);
    if (cancelled) {
      if (failure === undefined && !isAbort(error)) throw error;
      // Wanted again since: the cancelled call only had to get out of the way.
      if (wanted !== undefined) this.#wanted.makeAskable(wanted);
      return;
    }
    if (failure === undefined || wanted === undefined) throw error;
    this.#reporter.report(node, way, failure, wanted.heights[0], { collectionId: wanted.id });
    remember(wanted, node, failure.text);
    if (failure.isNotFound) wanted.notFound += 1;
    if (failure.isNodeBusy) wanted.rotation.declined(node);
    else wanted.rotation.failed(node);
    const { backoffMinMs: minMs, backoffMaxMs: maxMs } = this.#options;
    // A node that was merely busy counts no failure: the first pause is the shortest either way.
    const attempt = Math.max(wanted.rotation.failures, 1) - 1;
    const pauseMs = backoffMs({ minMs, maxMs }, attempt, this.#dependencies.random);
    this.#due.set(wanted.id, pauseMs);
  }
}

/** The call by which a node is asked for a collection; what it answered UNIMPLEMENTED to is left alone for a while. */
function wayTo(node: AccessNode): CollectionWay {
  return node.supports('GetFullCollectionByID') ? 'GetFullCollectionByID' : 'GetCollectionByID';
}

/** For "why is it not here". */
function remember(wanted: WantedCollection, { name }: AccessNode, error: string): void {
  wanted.lastError = error;
  const failures = (wanted.failures ??= new Map<string, NodeFailures>());
  const count = (failures.get(name)?.count ?? 0) + 1;
  failures.set(name, { count, lastError: error, lastAt: wanted.lastAskedAt ?? 0 });
}
