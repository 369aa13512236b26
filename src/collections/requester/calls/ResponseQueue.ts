import type { AccessNode } from '../../../access/index.js';
import type { WantedCollection } from '../../heights/WantedCollection.js';
import type { CollectionWay } from '../../ports.js';
import type { Clock } from '../../../runtime/index.js';
import type { SlotUse } from '../nodes/EndpointSlots.js';

/** How long answers are processed before yielding to the event loop, so that the next calls can be sent. */
const TURN_MS = 2;

/** A collection as a node sent it, not verified yet. */
export interface Answer {
  readonly wanted: WantedCollection;
  readonly node: AccessNode;
  readonly way: CollectionWay;
  readonly bodies: readonly Uint8Array[];
  /** Monotonic milliseconds. */
  readonly sentAtMs: number;
  /** Monotonic milliseconds. */
  readonly receivedAtMs: number;
  /** The use of its slot, if the slot stays taken until this answer has been processed. */
  readonly slotUse: SlotUse | undefined;
}

export interface ResponseQueueDependencies {
  readonly clock: Clock;
  /** Processes one answer. */
  onAnswer(answer: Answer): void;
  /** A turn is over: the queue is shorter. */
  onTurnEnd(): void;
  /** Takes what either of the two threw. */
  onFatal(error: unknown): void;
}

/**
 * Processes answers in order of arrival, in turns of the event loop. A connection sends only between turns, so
 * processing a burst in a single turn would leave the node idle, and us waiting for it afterwards. The caller bounds
 * the queue.
 */
export class ResponseQueue {
  readonly #dependencies: ResponseQueueDependencies;
  readonly #answers: Answer[] = [];

  constructor(dependencies: ResponseQueueDependencies) {
    this.#dependencies = dependencies;
  }

  get length(): number {
    return this.#answers.length;
  }

  push(answer: Answer): void {
    this.#answers.push(answer);
    if (this.#answers.length === 1) this.#nextTurn();
  }

  /** Empties the queue and returns its answers. */
  clear(): Answer[] {
    return this.#answers.splice(0);
  }

  #nextTurn(): void {
    this.#dependencies.clock.setTimer(0, () => this.#onTurn());
  }

  #onTurn(): void {
    try {
      this.#processSome();
    } catch (error) {
      this.#dependencies.onFatal(error);
    }
  }

  #processSome(): void {
    const { clock } = this.#dependencies;
    const endsAtMs = clock.monotonic() + TURN_MS;
    let processed = 0;
    try {
      do {
        const answer = this.#answers[processed];
        if (answer === undefined) break;
        processed += 1;
        this.#dependencies.onAnswer(answer);
      } while (clock.monotonic() < endsAtMs);
    } finally {
      this.#answers.splice(0, processed);
      if (this.#answers.length > 0) this.#nextTurn();
      this.#dependencies.onTurnEnd();
    }
  }
}
