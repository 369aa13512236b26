import type { BlockHead, IndexStore } from '../../storage/index.js';

/**
 * The block that is durable above the watermark is another one than the chain has: it came from a node that lied, and the
 * process that wrote it ended before the lie was found out.
 */
export class OffChainBlockError extends Error {
  override readonly name = 'OffChainBlockError';
  readonly height: number;

  constructor({ height, id }: BlockHead, durableId: string) {
    super(`block ${durableId} is durable at height ${height}, where the chain has block ${id}`);
    this.height = height;
  }
}

type HeadStore = Pick<
  IndexStore,
  'latestIndexedHeight' | 'latestBlock' | 'blocksAboveWatermark' | 'hasHeight'
>;

/**
 * The durable blocks from the watermark up, and which of those above it the chain has borne out: what an earlier line or
 * process left above a gap counts only once its block is known to be the chain's.
 */
export class DurableHeads {
  readonly #store: HeadStore;
  readonly #windowHeights: number;
  /** `undefined` until first needed. */
  #heads: Map<number, BlockHead> | undefined;
  /** At most as many as the store had when this began. */
  readonly #unconfirmed = new Set<number>();
  /** One window, the block at the watermark, and what an earlier run, perhaps with a wider window, left above the gap. */
  #max = 0;

  constructor(store: HeadStore, { windowHeights }: { readonly windowHeights: number }) {
    this.#store = store;
    this.#windowHeights = windowHeights;
  }

  at(height: number): BlockHead | undefined {
    return this.#all().get(height);
  }

  /** The chain has this block. True when it is durable and that was in doubt. Throws `OffChainBlockError`. */
  confirm(block: BlockHead): boolean {
    const { height } = block;
    const head = this.at(height);
    if (head === undefined || !this.#unconfirmed.has(height)) return false;
    if (head.id !== block.id) throw new OffChainBlockError(block, head.id);
    return this.#unconfirmed.delete(height);
  }

  /** Durable, and the watermark may pass over it. */
  isConfirmed(height: number): boolean {
    this.#all();
    return this.#store.hasHeight(height) && !this.#unconfirmed.has(height);
  }

  /** These are durable now. */
  remember(blocks: readonly BlockHead[]): void {
    const heads = this.#all();
    for (const { height, id, parentId } of blocks) heads.set(height, { height, id, parentId });
    const watermark = this.#store.latestIndexedHeight();
    for (const height of heads.keys()) {
      if (height < watermark) heads.delete(height);
    }
    if (heads.size > this.#max) {
      throw new Error(`${heads.size} durable blocks are remembered, the bound is ${this.#max}`);
    }
  }

  #all(): Map<number, BlockHead> {
    if (this.#heads === undefined) {
      this.#heads = new Map();
      const latest = this.#store.latestBlock();
      if (latest !== undefined) this.#heads.set(latest.height, latest);
      for (const head of this.#store.blocksAboveWatermark()) {
        this.#heads.set(head.height, head);
        this.#unconfirmed.add(head.height);
      }
      this.#max = this.#windowHeights + this.#heads.size + 1;
    }
    return this.#heads;
  }
}
