import type { NodeTrouble } from '../../access/index.js';
import { Listeners, runTogether, unlessAborted } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { HeadSubscription } from './HeadSubscription.js';
import type { HeadDependencies } from './HeadSubscription.js';
import type { ReportedHead } from '../ports.js';

/** Heads remembered with their ids: more than there are blocks at the tip. */
const TOLD_HEADS = 16;

/**
 * Knows the finalized and the sealed head of the network. Neither ever falls, whichever node answers (behind a load
 * balancer the reported heights do). Streams are judged by what they deliver, not by being open.
 */
export class FinalizationListener {
  readonly #clock: Clock;
  readonly #finalized: HeadSubscription;
  readonly #sealed: HeadSubscription;
  readonly #headListeners = new Listeners<number>();
  readonly #sealedListeners = new Listeners();
  readonly #answerListeners = new Listeners();
  readonly #toldListeners = new Listeners();
  /** By height, then by node, the latest report last. */
  readonly #reported = new Map<number, Map<string, ReportedHead>>();
  #finalizedHeight: number | undefined;
  #sealedHeight: number | undefined;
  #advancedAtMs: number | undefined;
  #sealedAdvancedAtMs: number | undefined;

  constructor(dependencies: HeadDependencies) {
    this.#clock = dependencies.clock;
    const parts = { ...dependencies, onAnswerAgain: () => this.#answerListeners.tell() };
    this.#finalized = new HeadSubscription('finalized', { ...parts, onHead: (head) => this.tell(head) });
    this.#sealed = new HeadSubscription('sealed', {
      ...parts,
      onHead: ({ height }) => this.#onSealed(height),
    });
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

  /** Why the finalized head is unknown; empty while any node reports it. */
  headTroubles(): readonly NodeTrouble[] {
    return this.#finalized.troubles();
  }

  /** Why the sealed head is unknown; empty while any node reports it. */
  sealedTroubles(): readonly NodeTrouble[] {
    return this.#sealed.troubles();
  }

  finalizedHeight(): number | undefined {
    return this.#finalizedHeight;
  }

  /** The last report of a finalized head at this height, among the most recent ones; `besides`: not by this node. */
  reportedHead(height: number, besides?: string): ReportedHead | undefined {
    return [...(this.#reported.get(height)?.values() ?? [])].findLast(({ node }) => node !== besides);
  }

  /** The node whose finalized head is followed now. */
  source(): string | undefined {
    return this.#finalized.source();
  }

  tell(head: ReportedHead): void {
    this.#remember(head);
    this.#onFinalized(head.height);
    this.#toldListeners.tell();
  }

  /** Calls back each time any node reports a finalized head. Returns a function that unsubscribes. */
  onTold(callback: () => void): () => void {
    return this.#toldListeners.add(callback);
  }

  sealedHeight(): number | undefined {
    return this.#sealedHeight;
  }

  /** The first finalized head, as soon as one is known. Expected errors: the signal's abort reason. */
  firstHead(signal: AbortSignal): Promise<number> {
    if (this.#finalizedHeight !== undefined) return Promise.resolve(this.#finalizedHeight);
    return unlessAborted(signal, (resolve) => this.onHead(resolve));
  }

  /** Calls back each time the finalized head rises. Returns a function that unsubscribes. */
  onHead(callback: (height: number) => void): () => void {
    return this.#headListeners.add(callback);
  }

  /** Calls back each time the sealed head rises. Returns a function that unsubscribes. */
  onSealed(callback: () => void): () => void {
    return this.#sealedListeners.add(callback);
  }

  /** Calls back when a node reports a head after none did for a while. Returns a function that unsubscribes. */
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
    return this.#since(this.#advancedAtMs);
  }

  /** Milliseconds since the sealed head last rose; `undefined` while unknown. */
  sealedAdvanceAgeMs(): number | undefined {
    return this.#since(this.#sealedAdvancedAtMs);
  }

  /** Seconds since each stream last delivered a new height, by stream name. */
  streamAges(): Map<string, number> {
    return new Map([
      ['finalized', this.#finalized.ageMs() / 1_000],
      ['sealed', this.#sealed.ageMs() / 1_000],
    ]);
  }

  #since(atMs: number | undefined): number | undefined {
    return atMs === undefined ? undefined : this.#clock.monotonic() - atMs;
  }

  #remember(head: ReportedHead): void {
    const told = this.#reported.get(head.height) ?? new Map<string, ReportedHead>();
    told.delete(head.node);
    told.set(head.node, head);
    this.#reported.delete(head.height);
    this.#reported.set(head.height, told);
    const [oldest = head.height] = this.#reported.keys();
    if (this.#reported.size > TOLD_HEADS) this.#reported.delete(oldest);
  }

  #onSealed(height: number): void {
    const hasRisen = height > (this.#sealedHeight ?? -1);
    if (hasRisen) {
      this.#sealedHeight = height;
      this.#sealedAdvancedAtMs = this.#clock.monotonic();
    }
    this.#onFinalized(height);
    if (hasRisen) this.#sealedListeners.tell();
  }

  #onFinalized(height: number): void {
    if (this.#finalizedHeight !== undefined && height <= this.#finalizedHeight) return;
    this.#finalizedHeight = height;
    this.#advancedAtMs = this.#clock.monotonic();
    this.#headListeners.tell(height);
  }
}
