import type { AccessNode } from '../../../access/index.js';
import { backoffMs } from '../../../runtime/index.js';
import type { Clock, Random } from '../../../runtime/index.js';
import type { TimerQueue } from './TimerQueue.js';
import type { RequestFailure } from '../requestFailure.js';
import type { HeightRecord } from '../../heights/HeightRecord.js';
import type { MissingCollectionQueue } from '../../heights/MissingCollectionQueue.js';
import type { WantedCollection } from '../../heights/WantedCollection.js';
import type { RequestOrder } from './RequestOrder.js';

/**
 * Pauses of a collection that was requested too early: the first, the growth of each next one, the longest, and their
 * number. Together they last nearly a second: a block is as late as its latest collection, and of a thousand collections
 * one may arrive half a second after the others.
 */
const EARLY_PAUSE = { minMs: 30, growth: 1.15, maxMs: 80, times: 14 };
/** The longest pause until every node was asked in both ways: one of them may be the only honest one. */
const UNTRIED_MAX_MS = 2_000;
/** A pause ends early only after this time: wake-ups may come many times a second. */
const WAKE_AFTER_MS = 1_000;

export interface RetryPausesOptions {
  /** A pause doubles from here … */
  readonly backoffMinMs: number;
  /** … up to here. */
  readonly backoffMaxMs: number;
}

export interface RetryPausesDependencies {
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
  readonly #options: RetryPausesOptions;
  readonly #dependencies: RetryPausesDependencies;
  /** Nodes whose latest result was a failure. Bounded by the number of nodes. */
  readonly #failing = new Set<string>();
  #headHeight = 0;

  constructor(options: RetryPausesOptions, dependencies: RetryPausesDependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
  }

  /** The latest head seen. */
  get headHeight(): number {
    return this.#headHeight;
  }

  /** A new head would end pauses: some node failed, and has delivered nothing since. */
  get awaitsHead(): boolean {
    return this.#failing.size > 0;
  }

  /** The attempt failed, and the id pauses. `isUntried`: some node was not asked in every way. */
  failed(wanted: WantedCollection, node: AccessNode, failure: RequestFailure, isUntried: boolean): void {
    const { clock, due } = this.#dependencies;
    wanted.failedAtMs = clock.monotonic();
    due.set(wanted, this.#pauseMs(wanted, node, failure, isUntried));
    if (!failure.isNotFound && !failure.isNodeBusy) this.#failing.add(node.name);
  }

  /** The node delivered. It may now have the collection's siblings too, and its earlier failures may be over. */
  gave({ heights }: WantedCollection, { name }: AccessNode): void {
    const { mcq, order } = this.#dependencies;
    for (const { height } of heights) this.#wake(order.wantedAt(height));
    if (!this.#failing.delete(name)) return;
    this.#wake(
      mcq.allWanted(),
      ({ lastNode, failures }) => lastNode === name && failures?.get(name)?.isDenial === false,
    );
  }

  /** A moving head is a sign of life: what holds up the watermark is requested again, unless it was denied. */
  sawHead(headHeight: number): void {
    if (headHeight <= this.#headHeight) return;
    this.#headHeight = headHeight;
    const { mcq, order } = this.#dependencies;
    const lowest = mcq.lowest();
    if (lowest === undefined) return;
    this.#wake(order.wantedAt(lowest), ({ lastNode = '', failures }) => {
      return failures?.get(lastNode)?.isDenial === false;
    });
  }

  /** "Not yet" for a new block is not a failure: it is requested again soon, a few times. */
  #pauseMs(wanted: WantedCollection, node: AccessNode, failure: RequestFailure, isUntried: boolean): number {
    const { backoffMinMs: minMs, backoffMaxMs } = this.#options;
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
    return backoffMs({ minMs, maxMs }, attempt, this.#dependencies.random);
  }

  /** Ends the pauses of these ids, except those that have just started. */
  #wake(
    several: Iterable<WantedCollection>,
    condition: (wanted: WantedCollection) => boolean = () => true,
  ): void {
    const { clock, due, order } = this.#dependencies;
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
