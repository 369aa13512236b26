import type { NodeTrouble } from '../../access/index.js';
import { Listeners, runTogether, unlessAborted } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { HeadSubscription } from './HeadSubscription.js';
import type { HeadDependencies, HeadName } from './HeadSubscription.js';
import type { ReportedHead } from '../ports.js';

/** Heads remembered with their ids: more than there are blocks at the tip. */
const TOLD_HEADS = 16;

/**
 * Knows the finalized and the sealed head of the network. Neither ever falls, whichever node answers (behind a load
 * balancer the reported heights do). Streams are judged by what they deliver, not by being open.
 */
export class FinalizationListener {
  readonly #clock: Clock;
  readonly #followed: Readonly<Record<HeadName, HeadSubscription>>;
  readonly #headListeners = new Listeners<number>();
  readonly #sealedListeners = new Listeners();
  readonly #answerListeners = new Listeners();
  readonly #toldListeners = new Listeners();
  /** By height, then by node, the latest report last. */
  readonly #reported = new Map<number, Map<string, ReportedHead>>();
  readonly #risen: Partial<Record<HeadName, { readonly height: number; readonly atMs: number }>> = {};

  constructor(dependencies: HeadDependencies) {
    this.#clock = dependencies.clock;
    const follow = (name: HeadName, onHead: (head: ReportedHead) => void): HeadSubscription =>
      new HeadSubscription(name, {
        ...dependencies,
        onHead,
        onAnswerAgain: () => this.#answerListeners.tell(),
      });
    this.#followed = {
      finalized: follow('finalized', (head) => this.tell(head)),
      sealed: follow('sealed', ({ height }) => {
        const hasRisen = this.#rise('sealed', height);
        this.#onFinalized(height);
        if (hasRisen) this.#sealedListeners.tell();
      }),
    };
  }

  /** Resolves when `signal` aborts. No expected errors. */
  run(signal: AbortSignal): Promise<void> {
    const { finalized, sealed } = this.#followed;
    return runTogether(signal, [(ended) => finalized.run(ended), (ended) => sealed.run(ended)]);
  }

  /** A node answers again: both heads are requested at once. */
  wake(): void {
    this.#followed.finalized.wake();
    this.#followed.sealed.wake();
  }

  /** Why the finalized head is unknown; empty while any node reports it. */
  headTroubles(): readonly NodeTrouble[] {
    return this.#followed.finalized.troubles();
  }

  /** Why the sealed head is unknown; empty while any node reports it. */
  sealedTroubles(): readonly NodeTrouble[] {
    return this.#followed.sealed.troubles();
  }

  finalizedHeight(): number | undefined {
    return this.#risen.finalized?.height;
  }

  sealedHeight(): number | undefined {
    return this.#risen.sealed?.height;
  }

  /** The last report of a finalized head at this height, among the most recent ones; `besides`: not by this node. */
  reportedHead(height: number, besides?: string): ReportedHead | undefined {
    return [...(this.#reported.get(height)?.values() ?? [])].findLast(({ node }) => node !== besides);
  }

  /** The node whose finalized head is followed now. */
  source(): string | undefined {
    return this.#followed.finalized.source();
  }

  /** A node reported a finalized head. */
  tell(head: ReportedHead): void {
    const told = this.#reported.get(head.height) ?? new Map<string, ReportedHead>();
    told.delete(head.node);
    told.set(head.node, head);
    this.#reported.delete(head.height);
    this.#reported.set(head.height, told);
    const [oldest = head.height] = this.#reported.keys();
    if (this.#reported.size > TOLD_HEADS) this.#reported.delete(oldest);
    this.#onFinalized(head.height);
    this.#toldListeners.tell();
  }

  /** The first finalized head, as soon as one is known. Expected errors: the signal's abort reason. */
  firstHead(signal: AbortSignal): Promise<number> {
    const height = this.finalizedHeight();
    if (height !== undefined) return Promise.resolve(height);
    return unlessAborted(signal, (resolve) => this.onHead(resolve));
  }

  /** Calls back each time any node reports a finalized head. Returns, like the others, a function that unsubscribes. */
  onTold(callback: () => void): () => void {
    return this.#toldListeners.add(callback);
  }

  /** Calls back each time the finalized head rises. */
  onHead(callback: (height: number) => void): () => void {
    return this.#headListeners.add(callback);
  }

  /** Calls back each time the sealed head rises. */
  onSealed(callback: () => void): () => void {
    return this.#sealedListeners.add(callback);
  }

  /** Calls back when a node reports a head after none did for a while. */
  onAnswerAgain(callback: () => void): () => void {
    return this.#answerListeners.add(callback);
  }

  /** Milliseconds since any node reported its finalized head, risen or not; `undefined` before the first report. */
  lastAnswerAgeMs(): number | undefined {
    return this.#followed.finalized.answerAgeMs();
  }

  /**
   * Milliseconds since the finalized head last rose; `undefined` while unknown. On a quiet chain it grows while
   * `lastAnswerAgeMs` does not.
   */
  lastAdvanceAgeMs(): number | undefined {
    return this.#ageMs('finalized');
  }

  /** Milliseconds since the sealed head last rose; `undefined` while unknown. */
  sealedAdvanceAgeMs(): number | undefined {
    return this.#ageMs('sealed');
  }

  /** Seconds since each stream last delivered a new height, by stream name. */
  streamAges(): Map<string, number> {
    return new Map(Object.entries(this.#followed).map(([name, head]) => [name, head.ageMs() / 1_000]));
  }

  #ageMs(name: HeadName): number | undefined {
    const risen = this.#risen[name];
    return risen && this.#clock.monotonic() - risen.atMs;
  }

  #onFinalized(height: number): void {
    if (this.#rise('finalized', height)) this.#headListeners.tell(height);
  }

  #rise(name: HeadName, height: number): boolean {
    const { height: before = -1 } = this.#risen[name] ?? {};
    if (height <= before) return false;
    this.#risen[name] = { height, atMs: this.#clock.monotonic() };
    return true;
  }
}
