import type { AccessNode, AccessNodes } from '../../access/index.js';
import { VerificationMemory, verifyCollection } from '../../flow/index.js';
import type { VerifiedCollection } from '../../flow/index.js';
import type { HeightRecord } from '../heights/HeightRecord.js';
import type { MissingCollectionQueue } from '../heights/MissingCollectionQueue.js';
import type { WantedCollection } from '../heights/WantedCollection.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { AbortError, isAbort, RunningAverage } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import type { CollectionChoice, CollectionNodes } from './CollectionNodes.js';
import type { EndpointSlots, SlotUse } from './EndpointSlots.js';
import { fetchCollection } from './fetchCollection.js';
import type { FetchOptions } from './fetchCollection.js';
import type { CollectionSink } from '../ports.js';
import { FaultReporter } from '../sources/FaultReporter.js';
import { judgeFailure, remember } from './callOutcome.js';
import type { Question } from './callOutcome.js';
import type { RequestOrder } from './RequestOrder.js';
import type { RetryPauses } from './RetryPauses.js';

/** The weight of one answer in the averages of the pace. */
const PACE = { weight: 1 / 32 };
/** How long answers are processed before yielding to the event loop, so that the next calls can be sent. */
const TURN_MS = 2;

/** Bounds of the size estimate used for admission (Flow allows 3 MB at most). */
const COLLECTION_BYTES = { weight: 1 / 16, initial: 16 * 1024, min: 512, max: 3 * 1024 * 1024 };

/** A collection as a node sent it, not verified yet. */
interface Answer extends Question {
  readonly bodies: readonly Uint8Array[];
  /** Monotonic milliseconds. */
  readonly sentAtMs: number;
  /** Monotonic milliseconds. */
  readonly receivedAtMs: number;
}

/** An answer that waits to be processed, and the release of its slot, which it may have passed on already. */
interface QueuedAnswer {
  readonly answer: Answer;
  readonly release: () => void;
}

interface Parts {
  readonly mcq: Pick<MissingCollectionQueue, 'allWanted' | 'letGo'>;
  readonly nodes: Pick<AccessNodes, 'succeeded' | 'report'>;
  readonly collectionNodes: CollectionNodes;
  readonly slots: EndpointSlots;
  readonly order: RequestOrder;
  readonly pauses: RetryPauses;
  readonly sink: Pick<CollectionSink, 'onCollection'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Pick<
    Metrics,
    'collectionsRequested' | 'requestsCancelled' | 'requestToReceive' | 'invalidCollections'
  >;
  /** A slot, or a place in the queue of answers, has become free. */
  readonly onRoom: () => void;
  /** A node failed, and a new head would end the pauses. */
  readonly onFailing: () => void;
  /** Takes what is unexpected, from a call or from the sink. */
  readonly onFatal: (error: unknown) => void;
}

/**
 * The calls under way: each from taking its slot until its answer is processed, or it has failed. An answer passes its
 * slot on before it is verified, so that the node works while we do. Answers are processed in order of arrival, in turns
 * of the event loop: a connection sends only between turns, so a burst in a single turn would leave the node idle. A
 * verified collection goes to the sink; a failure is reported and recorded, and its id pauses.
 *
 * Every call ends in `#over`, whatever becomes of it: that releases the slot, which is shared with other requesters.
 * Bounds: calls by the slots; answers that passed their slot on by `concurrency`.
 */
export class CollectionCalls {
  readonly #concurrency: number;
  readonly #parts: Parts;
  readonly #nodes: CollectionNodes;
  readonly #reporter: FaultReporter;
  readonly #verificationMemory = new VerificationMemory();
  readonly #collectionBytes = new RunningAverage(COLLECTION_BYTES);
  readonly #answers: QueuedAnswer[] = [];
  /** Set while answers wait for their turn. */
  #turn: Timer | undefined;
  #underWay = 0;
  #isStopped = false;
  readonly #callMs = new RunningAverage(PACE);
  readonly #intervalMs = new RunningAverage(PACE);
  /** The time of the last answer; `undefined` if at some moment since then no call had to wait. */
  #answeredAtMs: number | undefined;

  /** `concurrency`: the most unprocessed answers that have passed their slot on. */
  constructor(concurrency: number, parts: Parts) {
    this.#concurrency = concurrency;
    this.#parts = parts;
    this.#nodes = parts.collectionNodes;
    this.#reporter = new FaultReporter({ source: 'requester' }, parts);
  }

  /** The expected size of a collection. */
  get collectionBytes(): number {
    return this.#collectionBytes.value ?? 0;
  }

  /** A light collection with its transactions counts as one. */
  get underWay(): number {
    return this.#underWay;
  }

  /** Everything that may be requested has been: from now on the pace depends on demand, not on the nodes. */
  idles(): void {
    this.#answeredAtMs = undefined;
  }

  /**
   * Expected time until this many more have arrived at full load: measured from answer to answer, and only while nodes,
   * slots or rate limits kept further calls waiting. `undefined` before there is any data.
   */
  durationMs(collections: number): number | undefined {
    const [call, interval] = [this.#callMs.value, this.#intervalMs.value];
    return call === undefined || interval === undefined ? undefined : call + collections * interval;
  }

  /** Throws unless a slot of the chosen node is free for this use. */
  send(
    wanted: WantedCollection,
    sentFor: HeightRecord,
    { node, way, timeoutMs }: CollectionChoice & { readonly node: AccessNode },
    use: SlotUse,
  ): void {
    const { clock, onFatal, order, slots } = this.#parts;
    const controller = new AbortController();
    const call = { sentFor, controller, returned: Promise.resolve(), isAnswered: false };
    order.sent(wanted, call);
    wanted.attempts += 1;
    wanted.lastNode = node.name;
    wanted.lastWay = way;
    wanted.sentAtMs = clock.monotonic();
    wanted.firstAskedAtMs ??= wanted.sentAtMs;
    wanted.lastAskedAt = clock.now();
    const release = slots.tryAcquire(node.name, use);
    if (release === undefined) throw new Error('a call was sent without a slot');
    this.#underWay += 1;
    const options = { signal: controller.signal, timeoutMs };
    call.returned = this.#call({ wanted, node, way }, { use, release }, options).catch(onFatal);
  }

  /** No height wants the collection any more: a call under way is cancelled, and removes the entry when it returns. */
  cancel(wanted: WantedCollection): void {
    const { mcq, metrics } = this.#parts;
    const { call } = wanted;
    if (call === undefined) mcq.letGo(wanted);
    else if (!call.isAnswered && !call.controller.signal.aborted) {
      metrics.requestsCancelled.inc();
      call.controller.abort(new AbortError('the collection is no longer wanted'));
    }
  }

  /** Cancels every call and drops the answers. Resolves when the calls have returned. Idempotent. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#turn?.cancel();
    for (const { answer, release } of this.#answers.splice(0)) this.#over(answer.wanted, release);
    const calls = Array.from(this.#parts.mcq.allWanted()).flatMap(({ call }) => call ?? []);
    const reason = new AbortError('stopping');
    for (const { controller } of calls) {
      if (!controller.signal.aborted) controller.abort(reason);
    }
    await Promise.all(calls.map((call) => call.returned));
  }

  async #call(
    question: Question,
    { use, release }: { readonly use: SlotUse; readonly release: () => void },
    options: FetchOptions,
  ): Promise<void> {
    const { wanted } = question;
    const fetched = await this.#fetch(question, use, options);
    if ('bodies' in fetched && !this.#isStopped) {
      this.#paced(fetched.receivedAtMs - fetched.sentAtMs);
      this.#queue({ answer: fetched, release });
      return;
    }
    this.#over(wanted, release);
    try {
      if ('failure' in fetched) this.#failed(fetched.question, fetched.failure, options.signal.aborted);
    } finally {
      this.#parts.onRoom();
    }
  }

  /** The answer, or why there is none and what was asked last. */
  async #fetch(
    question: Question,
    use: SlotUse,
    options: FetchOptions,
  ): Promise<Answer | { readonly failure: unknown; readonly question: Question }> {
    const { clock, metrics, slots } = this.#parts;
    const { wanted, node, way } = question;
    const sentAtMs = clock.monotonic();
    let asked = way;
    let answeredInMs: number | undefined;
    this.#nodes.sent(node, way);
    try {
      const bodies = await fetchCollection(wanted.id, node, way, options, {
        onCall: (one) => {
          asked = one;
          metrics.collectionsRequested.inc();
        },
        // The call continues: `explain` can name the cause before it ends.
        onRefused: (error) => {
          const failure = judgeFailure(error);
          if (failure !== undefined) remember(question, failure);
        },
        tryAcquireSlot: () => slots.tryAcquire(node.name, use),
      });
      const receivedAtMs = clock.monotonic();
      answeredInMs = receivedAtMs - sentAtMs;
      return { wanted, node, way: asked, bodies, sentAtMs, receivedAtMs };
    } catch (error) {
      return { failure: error, question: { wanted, node, way: asked } };
    } finally {
      this.#nodes.returned(node, way, answeredInMs);
    }
  }

  /** A call brought its collection. */
  #paced(callMs: number): void {
    this.#callMs.observe(callMs);
    const nowMs = this.#parts.clock.monotonic();
    if (this.#answeredAtMs !== undefined) this.#intervalMs.observe(nowMs - this.#answeredAtMs);
    this.#answeredAtMs = nowMs;
  }

  #queue(queued: QueuedAnswer): void {
    const { call } = queued.answer.wanted;
    if (call !== undefined) call.isAnswered = true;
    if (this.#answers.length < this.#concurrency) queued.release();
    this.#answers.push(queued);
    this.#nextTurn();
    this.#parts.onRoom();
  }

  #nextTurn(): void {
    const { clock, onFatal } = this.#parts;
    this.#turn ??= clock.setTimer(0, () => {
      this.#turn = undefined;
      try {
        this.#processSome();
      } catch (error) {
        onFatal(error);
      }
    });
  }

  #processSome(): void {
    const { clock, onRoom } = this.#parts;
    const endsAtMs = clock.monotonic() + TURN_MS;
    try {
      do {
        const next = this.#answers.shift();
        if (next === undefined) break;
        this.#over(next.answer.wanted, next.release);
        if (next.answer.wanted.isWanted) this.#answered(next.answer);
      } while (clock.monotonic() < endsAtMs);
    } finally {
      if (this.#answers.length > 0) this.#nextTurn();
      onRoom();
    }
  }

  #answered({ wanted, node, way, bodies, sentAtMs, receivedAtMs }: Answer): void {
    const { metrics, pauses, sink } = this.#parts;
    let collection: VerifiedCollection;
    try {
      collection = verifyCollection(wanted.id, bodies, this.#verificationMemory);
    } catch (error) {
      this.#failed({ wanted, node, way }, error, false);
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

  /** Throws what is unexpected. */
  #failed({ wanted, node, way }: Question, error: unknown, cancelled: boolean): void {
    const { onFailing, order, pauses } = this.#parts;
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
    if (pauses.awaitsHead) onFailing();
  }

  /** The call is over. Its collection may no longer be wanted. */
  #over(wanted: WantedCollection, release: () => void): void {
    const { mcq, order } = this.#parts;
    release();
    this.#underWay -= 1;
    order.returned(wanted);
    if (!wanted.isWanted) mcq.letGo(wanted);
  }
}
