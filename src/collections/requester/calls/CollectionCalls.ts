import type { AccessNode, UpstreamError } from '../../../access/index.js';
import type { HeightRecord } from '../../heights/HeightRecord.js';
import type { MissingCollectionQueue } from '../../heights/MissingCollectionQueue.js';
import type { WantedCollection } from '../../heights/WantedCollection.js';
import type { Metrics } from '../../../observability/index.js';
import { AbortError } from '../../../runtime/index.js';
import type { Clock } from '../../../runtime/index.js';
import type { CollectionChoice, CollectionNodes } from '../nodes/CollectionNodes.js';
import type { EndpointSlots, SlotUse } from '../nodes/EndpointSlots.js';
import type { FetchRate } from '../FetchRate.js';
import { fetchCollection } from './fetchCollection.js';
import type { FetchOptions } from './fetchCollection.js';
import type { Question } from '../requestRecord.js';
import type { RequestOrder } from '../order/RequestOrder.js';
import { ResponseQueue } from './ResponseQueue.js';
import type { Answer } from './ResponseQueue.js';

export interface CollectionCallsOptions {
  /** The most unprocessed answers that have passed their slot on. */
  readonly concurrency: number;
}

export interface CollectionCallsDependencies {
  readonly mcq: Pick<MissingCollectionQueue, 'allWanted' | 'letGo'>;
  readonly nodes: CollectionNodes;
  readonly slots: EndpointSlots;
  readonly order: RequestOrder;
  readonly pace: FetchRate;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'collectionsRequested' | 'requestsCancelled'>;
  /** Takes an answer that is still wanted; not verified yet. */
  onAnswer(answer: Answer): void;
  /** The rate limit refused a part of the call, which continues: `explain` can name the cause before the call ends. */
  onRefused(question: Question, error: UpstreamError): void;
  /** The call failed, or was cancelled. */
  onFailure(question: Question, error: unknown, cancelled: boolean): void;
  /** A slot, or a place in the queue of answers, has become free. */
  onRoom(): void;
  /** Takes what any of these threw. */
  onFatal(error: unknown): void;
}

/**
 * The calls under way: each from taking its slot to its answer or failure. An answer passes its slot on before it is
 * verified, so that the node works while we do.
 *
 * Bounds: calls by the slots; answers that passed their slot on by `concurrency`.
 */
export class CollectionCalls {
  readonly #options: CollectionCallsOptions;
  readonly #dependencies: CollectionCallsDependencies;
  readonly #answers: ResponseQueue;
  #underWay = 0;
  #isStopped = false;

  constructor(options: CollectionCallsOptions, dependencies: CollectionCallsDependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
    this.#answers = new ResponseQueue({
      clock: dependencies.clock,
      onAnswer: (answer) => this.#process(answer),
      onTurnEnd: () => dependencies.onRoom(),
      onFatal: (error) => dependencies.onFatal(error),
    });
  }

  /** A light collection with its transactions counts as one. */
  get underWay(): number {
    return this.#underWay;
  }

  /** Throws unless a slot of the chosen node is free for this use. */
  send(
    wanted: WantedCollection,
    sentFor: HeightRecord,
    { node, way, timeoutMs }: CollectionChoice & { readonly node: AccessNode },
    use: SlotUse,
  ): void {
    const { clock, order, slots } = this.#dependencies;
    if (!slots.tryAcquire(node.name, use)) throw new Error('a call was sent without a slot');
    wanted.attempts += 1;
    wanted.lastNode = node.name;
    wanted.lastWay = way;
    wanted.sentAtMs = clock.monotonic();
    wanted.firstAskedAtMs ??= wanted.sentAtMs;
    wanted.lastAskedAt = clock.now();
    const controller = new AbortController();
    const call = { sentFor, controller, returned: Promise.resolve(), isAnswered: false };
    order.sent(wanted, call);
    this.#underWay += 1;
    const options = { signal: controller.signal, timeoutMs };
    call.returned = this.#call({ wanted, node, way }, use, options).catch((error: unknown) => {
      this.#dependencies.onFatal(error);
    });
  }

  /** No height wants the collection any more: a call under way is cancelled, and removes the entry when it returns. */
  cancel(wanted: WantedCollection): void {
    const { mcq, metrics } = this.#dependencies;
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
    for (const { wanted } of this.#answers.clear()) this.#returned(wanted);
    const calls = Array.from(this.#dependencies.mcq.allWanted()).flatMap(({ call }) => call ?? []);
    const reason = new AbortError('stopping');
    for (const { controller } of calls) {
      if (!controller.signal.aborted) controller.abort(reason);
    }
    await Promise.all(calls.map((call) => call.returned));
  }

  async #call(question: Question, use: SlotUse, options: FetchOptions): Promise<void> {
    const { clock, metrics, nodes, pace, slots } = this.#dependencies;
    const { wanted, node, way } = question;
    const sentAtMs = clock.monotonic();
    let asked = way;
    let bodies: readonly Uint8Array[] | undefined;
    let failure: { readonly error: unknown } | undefined;
    nodes.sent(node, way);
    try {
      bodies = await fetchCollection(wanted.id, node, way, options, {
        onCall: (one) => {
          asked = one;
          metrics.collectionsRequested.inc();
        },
        onRefused: (error) => this.#dependencies.onRefused(question, error),
        tryAcquireSlot: () => slots.tryAcquire(node.name, use),
        releaseSlot: () => slots.release(node.name, use),
      });
    } catch (error) {
      failure = { error };
    }
    const tookMs = clock.monotonic() - sentAtMs;
    nodes.returned(node, way, bodies === undefined ? undefined : tookMs);
    if (bodies !== undefined) {
      pace.answered(tookMs);
      this.#queue({ wanted, node, way: asked }, use, bodies, sentAtMs);
      return;
    }
    slots.release(node.name, use);
    this.#returned(wanted);
    try {
      if (failure !== undefined)
        this.#dependencies.onFailure({ wanted, node, way: asked }, failure.error, options.signal.aborted);
    } finally {
      this.#dependencies.onRoom();
    }
  }

  #queue(question: Question, use: SlotUse, bodies: readonly Uint8Array[], sentAtMs: number): void {
    if (this.#isStopped) return;
    const { clock, slots } = this.#dependencies;
    const { wanted, node } = question;
    if (wanted.call !== undefined) wanted.call.isAnswered = true;
    const keepsSlot = this.#answers.length >= this.#options.concurrency;
    if (!keepsSlot) slots.release(node.name, use);
    const slotUse = keepsSlot ? use : undefined;
    this.#answers.push({ ...question, bodies, sentAtMs, receivedAtMs: clock.monotonic(), slotUse });
    this.#dependencies.onRoom();
  }

  #process(answer: Answer): void {
    const { slots } = this.#dependencies;
    if (answer.slotUse !== undefined) slots.release(answer.node.name, answer.slotUse);
    this.#returned(answer.wanted);
    if (answer.wanted.isWanted) this.#dependencies.onAnswer(answer);
  }

  /** A call has returned. Its collection may no longer be wanted. */
  #returned(wanted: WantedCollection): void {
    const { mcq, order } = this.#dependencies;
    this.#underWay -= 1;
    order.returned(wanted);
    if (!wanted.isWanted) mcq.letGo(wanted);
  }
}
