import type { FinalizedBlock } from '../../flow/index.js';
import { abortReason } from '../../runtime/index.js';
import type { ByteBudget } from './ByteBudget.js';
import type { MissingCollectionQueue } from './MissingCollectionQueue.js';
import type { BlockIndexer, BlockWindow } from '../ports.js';

export interface IndexingWindowOptions {
  /** K: no height above the watermark plus this is ever worked on. */
  readonly windowHeights: number;
}

export interface IndexingWindowDependencies {
  readonly indexer: Pick<BlockIndexer, 'latestIndexedHeight' | 'isIndexed'>;
  readonly mcq: MissingCollectionQueue;
  readonly budget: ByteBudget;
  /** The highest height that may be asked for at all: the finalized head, or the stop height when that is lower. */
  head(): number;
}

/** Who may wait for changes: the two sources, and a few readers. More is a leak. */
const MAX_WAITERS = 32;

/**
 * The window as the sources see it. It owns no state but the lists of those who wait and listen: every answer is read from the
 * part that owns it, and whoever changes such a part says so with `notify`; with `moved`, when it is one of its ends.
 */
export class IndexingWindow implements BlockWindow {
  readonly windowHeights: number;
  readonly #dependencies: IndexingWindowDependencies;
  readonly #waiters = new Set<() => void>();
  /** The parts of the line, as they are built. */
  readonly #listeners: (() => void)[] = [];

  constructor(options: IndexingWindowOptions, dependencies: IndexingWindowDependencies) {
    this.windowHeights = options.windowHeights;
    this.#dependencies = dependencies;
  }

  latestIndexedHeight(): number {
    return this.#dependencies.indexer.latestIndexedHeight();
  }

  upperBound(): number {
    return Math.min(this.latestIndexedHeight() + this.windowHeights, this.headHeight());
  }

  headHeight(): number {
    return this.#dependencies.head();
  }

  blockAt(height: number): FinalizedBlock | undefined {
    return this.#dependencies.mcq.get(height)?.block;
  }

  isIndexed(height: number): boolean {
    return this.#dependencies.indexer.isIndexed(height);
  }

  admits(height: number, bytes: number): boolean {
    return this.#dependencies.budget.admits(height, bytes);
  }

  /**
   * Resolves at the next `notify`. Whoever looks, finds nothing to do and calls this without awaiting in between, misses
   * no change. Expected errors: the signal's abort reason.
   */
  changed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(abortReason(signal));
        return;
      }
      if (this.#waiters.size >= MAX_WAITERS) throw new Error('too many wait for the window to change');
      const wake = (): void => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      const onAbort = (): void => {
        this.#waiters.delete(wake);
        reject(abortReason(signal));
      };
      this.#waiters.add(wake);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  /** Calls the listener whenever the watermark or the head has moved. It must not throw. */
  onMoved(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** The watermark or the head has moved: the one way in which the line is told. */
  moved(): void {
    for (const listener of this.#listeners) listener();
    this.notify();
  }

  /** Something else that the window answers from has changed: blocks, or budget. */
  notify(): void {
    if (this.#waiters.size === 0) return;
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const wake of waiters) wake();
  }
}
