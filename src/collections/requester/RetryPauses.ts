import type { AccessNode } from '../../access/index.js';
import { backoffMs } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import type { TimerQueue } from './TimerQueue.js';
import type { RequestFailure } from './callOutcome.js';
import type { HeightRecord } from '../heights/HeightRecord.js';
import type { MissingCollectionQueue } from '../heights/MissingCollectionQueue.js';
import type { WantedCollection } from '../heights/WantedCollection.js';
import type { RequestOrder } from './RequestOrder.js';

/**
 * Pauses of a collection that was requested too early: the first, the growth of each next one, the longest, and their
 * number. Together they last nearly a second: a block is as late as its latest collection, and of a thousand collections
 * one may arrive half a second after the others.
 */
const EARLY_PAUSE = { minMs: 30, growth: 1.15, maxMs: 80, times: 14 };
/** The longest pause until every node was asked in both ways: one of them may be the only honest one. */
const UNTRIED_MAX_MS = 2_000;
/** No pause ends sooner after the failure than this: reasons to end one may come many times a second. */
const WAKE_AFTER_MS = 1_000;
/** Collections that a node has yet to fetch, and that are requested again at once because of one event. */
const MAX_AWAITED_WOKEN = 32;

interface Parts {
  readonly mcq: MissingCollectionQueue;
  readonly order: RequestOrder;
  readonly due: TimerQueue<WantedCollection | HeightRecord>;
  readonly clock: Clock;
  readonly random: Random;
}

/**
 * How long an id pauses after a failed attempt, and what ends the pause early: signs that an outage is over. An early
 * end allows one attempt; every further failure lengthens the next pause as usual.
 */
export class RetryPauses {
  readonly #limits: { readonly backoffMinMs: number; readonly backoffMaxMs: number };
  readonly #parts: Parts;
  /** Nodes whose latest result was a failure. Bounded by the number of nodes. */
  readonly #failing = new Set<string>();
  /** The lowest height pauses for collections that their node is expected to fetch. */
  #awaitsFetched = false;
  #headHeight = 0;

  /** A pause doubles from `backoffMinMs` up to `backoffMaxMs`. */
  constructor(limits: { readonly backoffMinMs: number; readonly backoffMaxMs: number }, parts: Parts) {
    this.#limits = limits;
    this.#parts = parts;
  }

  /** The latest head seen. */
  get headHeight(): number {
    return this.#headHeight;
  }

  /** A new head would end pauses: some node failed, and has delivered nothing since, or has yet to fetch something. */
  get awaitsHead(): boolean {
    return this.#failing.size > 0 || this.#awaitsFetched;
  }

  /** The attempt failed, and the id pauses. `isUntried`: some node was not asked in every way. */
  failed(wanted: WantedCollection, node: AccessNode, failure: RequestFailure, isUntried: boolean): void {
    const { clock, due } = this.#parts;
    wanted.failedAtMs = clock.monotonic();
    due.set(wanted, this.#pauseMs(wanted, node, failure, isUntried));
    if (!failure.isNotFound && !failure.isNodeBusy) this.#failing.add(node.name);
    if (isAwaited(wanted)) this.#awaitsFetched = true;
  }

  /** The node delivered. It may now have the collection's siblings too, and its earlier failures may be over. */
  gave(given: WantedCollection, { name }: AccessNode): void {
    const { mcq, order } = this.#parts;
    for (const { height } of given.heights) this.#wake(order.wantedAt(height));
    // What the node could not fetch for long, it now can.
    if (isAwaited(given) && given.earlyAttempts >= EARLY_PAUSE.times)
      this.#wakeAwaited([...mcq.allWanted()].filter(({ lastNode }) => lastNode === name));
    if (!this.#failing.delete(name)) return;
    this.#wake(
      mcq.allWanted(),
      ({ lastNode, failures }) => lastNode === name && failures?.get(name)?.isDenial === false,
    );
  }

  /**
   * A moving head is a sign of life: what holds up the watermark is requested again. Of what was denied, that is what the
   * node is expected to fetch, a few at a time: once one is there, it ends the pauses of the others.
   */
  sawHead(headHeight: number): void {
    if (headHeight <= this.#headHeight) return;
    this.#headHeight = headHeight;
    const { mcq, order } = this.#parts;
    const lowest = mcq.lowest();
    if (lowest === undefined) return;
    this.#wake(order.wantedAt(lowest), ({ lastNode = '', failures }) => {
      return failures?.get(lastNode)?.isDenial === false;
    });
    this.#awaitsFetched = this.#wakeAwaited([...order.wantedAt(lowest)]);
  }

  /**
   * Ends the pauses of collections that their node is expected to fetch, lowest height first, and of those that have just
   * been denied as soon as it may: there may be no further sign. False if none pauses.
   */
  #wakeAwaited(several: readonly WantedCollection[]): boolean {
    const { clock, due } = this.#parts;
    const heightOf = ({ heights: [record] }: WantedCollection): number => record?.height ?? 0;
    const awaited = several
      .filter((wanted) => due.has(wanted) && isAwaited(wanted))
      .sort((a, b) => heightOf(a) - heightOf(b) || a.failedAtMs - b.failedAtMs)
      .slice(0, MAX_AWAITED_WOKEN);
    this.#wake(awaited);
    const nowMs = clock.monotonic();
    for (const wanted of awaited) due.hasten(wanted, wanted.failedAtMs + WAKE_AFTER_MS - nowMs);
    return awaited.length > 0;
  }

  /** "Not yet" for a new block is not a failure: it is requested again soon, a few times. */
  #pauseMs(wanted: WantedCollection, node: AccessNode, failure: RequestFailure, isUntried: boolean): number {
    const { backoffMinMs: minMs, backoffMaxMs } = this.#limits;
    const isEarly = failure.isNotFound && wanted.newSinceMs !== undefined;
    if (isEarly && wanted.earlyAttempts < EARLY_PAUSE.times) {
      wanted.rotation.declined(node);
      const pauseMs = EARLY_PAUSE.minMs * EARLY_PAUSE.growth ** wanted.earlyAttempts;
      wanted.earlyAttempts += 1;
      return Math.min(pauseMs, EARLY_PAUSE.maxMs, minMs);
    }
    if (failure.isNodeBusy) wanted.rotation.declined(node);
    else wanted.rotation.failed(node);
    const untriedMaxMs = Math.min(backoffMaxMs, Math.max(minMs, UNTRIED_MAX_MS));
    // A busy node does not count as a failure: the first pause is the shortest either way.
    const attempt = Math.max(wanted.rotation.failures, 1) - 1;
    const maxMs = isUntried ? untriedMaxMs : backoffMaxMs;
    return backoffMs({ minMs, maxMs }, attempt, this.#parts.random);
  }

  /** Ends the pauses of these ids, except those that have just started. */
  #wake(
    several: Iterable<WantedCollection>,
    condition: (wanted: WantedCollection) => boolean = () => true,
  ): void {
    const { clock, due, order } = this.#parts;
    if (due.isEmpty) return;
    const failedByMs = clock.monotonic() - WAKE_AFTER_MS;
    for (const wanted of several) {
      if (wanted.attempts === 0 || wanted.failedAtMs > failedByMs) continue;
      if (!due.has(wanted) || !condition(wanted)) continue;
      due.delete(wanted);
      order.makeAskable(wanted);
    }
  }
}

/** The node that was asked last is expected to fetch it: it says so, or the block was new when it was asked first. */
function isAwaited({ attempts, failures, lastNode = '', newSinceMs }: WantedCollection): boolean {
  const last = failures?.get(lastNode);
  return attempts > 0 && last?.isDenial === true && (last.isPromised || newSinceMs !== undefined);
}
