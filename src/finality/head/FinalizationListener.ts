import { Listeners, runTogether, unlessAborted } from '../../runtime/index.js';
import { HeadFollower, type HeadDependencies } from './HeadFollower.js';

/**
 * Knows the finalized and the sealed head of the network. Neither falls, whichever node answers (behind a load balancer
 * the reported heights do), unless the node that told it turns out to be of another chain. Streams are judged by what they
 * deliver, not by being open.
 */
export class FinalizationListener {
  readonly finalized: HeadFollower;
  readonly sealed: HeadFollower;
  readonly #answerListeners = new Listeners();

  constructor(dependencies: HeadDependencies) {
    const onAnswerAgain = (): void => this.#answerListeners.tell();
    this.finalized = new HeadFollower({ ...dependencies, name: 'finalized', onAnswerAgain });
    this.sealed = new HeadFollower({ ...dependencies, name: 'sealed', onAnswerAgain });
    this.sealed.onRise((height) => this.finalized.rise(height, this.sealed.reportedBy));
  }

  /** Resolves when `signal` aborts. No expected errors. */
  run(signal: AbortSignal): Promise<void> {
    return runTogether(signal, [(ended) => this.finalized.run(ended), (ended) => this.sealed.run(ended)]);
  }

  /** A node answers again: both heads are requested at once. */
  wake(): void {
    this.finalized.wake();
    this.sealed.wake();
  }

  /** A node was found to be of another chain: forgets what it told above this height of ours. */
  forget(node: string, height: number | undefined): void {
    this.finalized.fall(node, height);
    this.sealed.fall(node, height);
  }

  /** The first finalized head, as soon as one is known. Expected errors: the signal's abort reason. */
  firstHead(signal: AbortSignal): Promise<number> {
    if (this.finalized.height !== undefined) return Promise.resolve(this.finalized.height);
    return unlessAborted(signal, (resolve) => this.finalized.onRise(resolve));
  }

  /** Calls back when a node reports a head after none did for a while. Returns a function that unsubscribes. */
  onAnswerAgain(callback: () => void): () => void {
    return this.#answerListeners.add(callback);
  }
}
