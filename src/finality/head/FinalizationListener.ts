import type { NodeTrouble } from '../../access/index.js';
import type { Identifier } from '../../flow/index.js';
import { Listeners, runTogether, unlessAborted } from '../../runtime/index.js';
import { HeadFollower } from './HeadFollower.js';
import type { HeadDependencies } from './HeadFollower.js';

/**
 * Knows the finalized and the sealed head of the network. Neither falls, whichever node answers (behind a load
 * balancer the reported heights do), unless one of those is of another chain. Streams are judged by what they deliver, not by being open.
 */
export class FinalizationListener {
  readonly #finalized: HeadFollower;
  readonly #sealed: HeadFollower;
  readonly #answerListeners = new Listeners();

  constructor(dependencies: HeadDependencies) {
    const onAnswerAgain = (): void => this.#answerListeners.tell();
    this.#finalized = new HeadFollower({ ...dependencies, name: 'finalized', onAnswerAgain });
    this.#sealed = new HeadFollower({ ...dependencies, name: 'sealed', onAnswerAgain });
    this.#sealed.onRise((height) => this.#finalized.rise(height));
  }

  /** Resolves when `signal` aborts. No expected errors. */
  run(signal: AbortSignal): Promise<void> {
    return runTogether(signal, [(ended) => this.#finalized.run(ended), (ended) => this.#sealed.run(ended)]);
  }

  /** A node answers again: both heads are requested at once. */
  wake(): void {
    this.#finalized.wake();
    this.#sealed.wake();
  }

  /** A node was found to be of another chain: forgets heads above this height of ours, since that node may have told them. */
  forgetAbove(height: number | undefined): void {
    this.#finalized.fall(height);
    this.#sealed.fall(height);
  }

  /** Why the finalized head is unknown; empty while any node reports it. */
  headTroubles(): readonly NodeTrouble[] {
    return this.#finalized.troubles();
  }

  /** Why the sealed head is unknown; empty while any node reports it. */
  sealedTroubles(): readonly NodeTrouble[] {
    return this.#sealed.troubles();
  }

  finalizedHeight(): number | undefined {
    return this.#finalized.height;
  }

  sealedHeight(): number | undefined {
    return this.#sealed.height;
  }

  /** The id that any node reported of a recent finalized head; `undefined`: none did. */
  headId(height: number): Identifier | undefined {
    return this.#finalized.idAt(height);
  }

  /** The first finalized head, as soon as one is known. Expected errors: the signal's abort reason. */
  firstHead(signal: AbortSignal): Promise<number> {
    const height = this.finalizedHeight();
    if (height !== undefined) return Promise.resolve(height);
    return unlessAborted(signal, (resolve) => this.onHead(resolve));
  }

  /** Calls back each time the finalized head rises. Returns, like the others, a function that unsubscribes. */
  onHead(callback: (height: number) => void): () => void {
    return this.#finalized.onRise(callback);
  }

  /** Calls back each time the sealed head rises. */
  onSealed(callback: () => void): () => void {
    return this.#sealed.onRise(callback);
  }

  /** Calls back when a node reports a head after none did for a while. */
  onAnswerAgain(callback: () => void): () => void {
    return this.#answerListeners.add(callback);
  }

  /** Milliseconds since any node reported its finalized head, risen or not; `undefined` before the first report. */
  lastAnswerAgeMs(): number | undefined {
    return this.#finalized.answerAgeMs();
  }

  /**
   * Milliseconds since the finalized head last rose; `undefined` while unknown. On a quiet chain it grows while
   * `lastAnswerAgeMs` does not.
   */
  lastAdvanceAgeMs(): number | undefined {
    return this.#finalized.advanceAgeMs();
  }

  /** Milliseconds since the sealed head last rose; `undefined` while unknown. */
  sealedAdvanceAgeMs(): number | undefined {
    return this.#sealed.advanceAgeMs();
  }

  /** Seconds since each head last rose, by the name of its stream; without those that are unknown. */
  streamAges(): Map<string, number> {
    const ages = Object.entries({ finalized: this.lastAdvanceAgeMs(), sealed: this.sealedAdvanceAgeMs() });
    return new Map(ages.flatMap(([name, ageMs]) => (ageMs === undefined ? [] : [[name, ageMs / 1_000]])));
  }
}
