import type { LinkedBlocks, RootParent, Watermark } from '../forks/LinkedBlocks.js';
import type { TipCheck } from '../forks/TipCheck.js';
import type { BlockReader } from './BlockReader.js';

/** Within this distance of the head a block is handed out before its child is known. */
const TIP_HEIGHTS = 2;

export interface BlockBoundsOptions {
  /** K: no height above watermark + K is requested. */
  readonly window: number;
  /** Nothing above it is requested. */
  readonly stopHeight?: number | undefined;
  /**
   * A height that the chain is known to have reached, whatever head is reported. Lagging nodes report a low head at
   * first, and a block far below the tip must not count as the tip. Default: none.
   */
  readonly reachedHeight?: number | undefined;
  readonly sporkRoots?: readonly RootParent[];
  /** For a range: which of its neighbours are not indexed and have to be requested, to prove the ends of the range. */
  readonly asksFor?: { readonly below: boolean; readonly above: boolean } | undefined;
}

export interface BlockBoundsDependencies {
  readonly linked: LinkedBlocks;
  readonly tipCheck: TipCheck;
  readonly reader: BlockReader;
  readonly watermark: Watermark;
  /** The finalized head. */
  readonly head: () => number;
  /** The highest height that may be worked on now. */
  readonly upperBound: () => number;
}

/**
 * How far blocks are read, and how far they are handed out.
 *
 * A block that links may still be off the finalized chain, which shows only when its child names another parent. If it
 * were complete and durable by then, only a `rewind` would help. So the last linked block waits for its child.
 * Exceptions: near the tip, where no child may be known for long, and at the stop height, where no child may be requested
 * or no node has it (there `TipCheck` confirms the block); a window of one; a block that the spork table confirms.
 */
export class BlockBounds {
  readonly #deps: BlockBoundsDependencies;
  readonly #linked: LinkedBlocks;
  readonly #window: number;
  readonly #stopHeight: number;
  readonly #reachedHeight: number;
  readonly #asksForAbove: boolean;
  #handedOutTo: number;

  constructor(options: BlockBoundsOptions, dependencies: BlockBoundsDependencies) {
    if (!Number.isSafeInteger(options.window) || options.window < 1)
      throw new RangeError(`window must be a positive integer, not ${options.window}`);
    this.#window = options.window;
    this.#stopHeight = options.stopHeight ?? Number.MAX_SAFE_INTEGER;
    // A spork in the table has started.
    const begun = (options.sporkRoots ?? []).map(({ rootHeight }) => rootHeight + TIP_HEIGHTS);
    this.#reachedHeight = Math.max(options.reachedHeight ?? 0, ...begun);
    this.#asksForAbove = options.asksFor?.above === true;
    this.#deps = dependencies;
    this.#linked = dependencies.linked;
    this.#handedOutTo = dependencies.watermark.latestIndexedHeight();
  }

  /** The highest height whose block may be read now; for a range also the child of its last block. */
  toRead(): number {
    const bound = this.#deps.upperBound();
    if (!this.#asksForAbove || bound < this.#stopHeight) return bound;
    return Math.min(bound + 1, this.#deps.watermark.latestIndexedHeight() + this.#window);
  }

  /** The highest height whose block may be handed out now. */
  toHandOut(): number {
    const linked = this.#linked.next - 1;
    const isTip = this.isTip(linked) && !this.#deps.tipCheck.holds();
    if (isTip || this.#window === 1 || this.#linked.confirmedAt(linked) !== undefined)
      return Math.min(linked, this.#stopHeight);
    return Math.min(linked, Math.max(this.#handedOutTo, linked - 1));
  }

  /** The block was handed out, which cannot be undone. */
  handedOut(height: number): void {
    if (height > this.#handedOutTo) this.#handedOutTo = height;
  }

  /** True for a height whose child may be unknown for long, or may not be requested. */
  isTip(height: number): boolean {
    const tip = Math.max(this.#deps.head(), this.#reachedHeight);
    if (height >= tip - TIP_HEIGHTS || height > this.#stopHeight) return true;
    return height === this.#stopHeight && (!this.#asksForAbove || this.#deps.reader.isUnserved);
  }
}
