import type { FinalizedBlock } from '../../flow/index.js';
import { unlessAborted } from '../../runtime/index.js';
import type { ByteBudget } from './ByteBudget.js';
import type { MissingCollectionQueue } from './MissingCollectionQueue.js';
import type { BlockIndexer, BlockWindow } from '../ports.js';
import type { WindowEnds } from './WindowEnds.js';

export interface IndexingWindowDependencies {
  readonly ends: WindowEnds;
  readonly indexer: Pick<BlockIndexer, 'isIndexed'>;
  readonly mcq: MissingCollectionQueue;
  readonly budget: ByteBudget;
}

/** The most waiters for changes: the two sources, and a few readers. More would be a leak. */
const MAX_WAITERS = 32;

/**
 * The window as the sources see it. It owns only the list of waiters: every answer comes from the part that owns the
 * data, and code that changes such a part calls `notify`.
 */
export class IndexingWindow implements BlockWindow {
  readonly #dependencies: IndexingWindowDependencies;
  readonly #waiters = new Set<() => void>();

  constructor(dependencies: IndexingWindowDependencies) {
    this.#dependencies = dependencies;
  }

  latestIndexedHeight(): number {
    return this.#dependencies.ends.latestIndexedHeight();
  }

  /** No height above it is ever worked on. */
  limit(): number {
    return this.#dependencies.ends.limit();
  }

  upperBound(): number {
    return this.#dependencies.ends.upperBound();
  }

  headHeight(): number {
    return this.#dependencies.ends.target() ?? 0;
  }

  blockAt(height: number): FinalizedBlock | undefined {
    return this.#dependencies.mcq.get(height)?.block;
  }

  isIndexed(height: number): boolean {
    return this.#dependencies.indexer.isIndexed(height);
  }

  isCertain(height: number, of: 'guarantees' | 'block'): boolean {
    const { mcq } = this.#dependencies;
    const block = mcq.known(height)?.block;
    if (block === undefined) return false;
    return of === 'guarantees'
      ? block.proof !== undefined
      : mcq.known(height + 1)?.block.parentId === block.id;
  }

  admits(height: number, bytes: number): boolean {
    return this.#dependencies.budget.admits(height, bytes);
  }

  /**
   * Resolves at the next `notify`. A caller that checks, finds nothing to do, and calls this without awaiting in
   * between misses no change. Expected errors: the signal's abort reason.
   */
  changed(signal: AbortSignal): Promise<void> {
    return unlessAborted(signal, (resolve) => {
      if (this.#waiters.size >= MAX_WAITERS) throw new Error('too many waiters for a change of the window');
      this.#waiters.add(resolve);
      return () => this.#waiters.delete(resolve);
    });
  }

  /** The ends of the window, its blocks, or the byte budget changed. */
  notify(): void {
    for (const wake of [...this.#waiters]) wake();
  }
}
