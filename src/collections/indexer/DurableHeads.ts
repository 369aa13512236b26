import { OffChainBlockError } from '../heights/OffChainBlockError.js';
import type { BlockHead, RangeStore } from '../../storage/index.js';
import type { Window } from '../heights/Window.js';

export interface DurableHeadsDependencies {
  readonly store: Pick<RangeStore, 'latestBlock' | 'blocksAboveWatermark' | 'hasHeight'>;
  readonly window: Pick<Window, 'at'>;
}

/**
 * The durable blocks from the watermark up, and which of those above it the chain has confirmed. A block that an earlier
 * line or process left above a gap counts only once it is known to be on the chain.
 */
export class DurableHeads {
  readonly #store: DurableHeadsDependencies['store'];
  readonly #window: DurableHeadsDependencies['window'];
  /** The blocks above the watermark at first use. */
  #inherited: ReadonlyMap<number, BlockHead> | undefined;
  /** The heights of those that the chain has not confirmed yet. */
  readonly #unconfirmed = new Set<number>();

  constructor(dependencies: DurableHeadsDependencies) {
    this.#store = dependencies.store;
    this.#window = dependencies.window;
  }

  at(height: number): BlockHead | undefined {
    const record = this.#window.at(height);
    if (record?.status === 'durable') return record.block;
    const latest = this.#store.latestBlock();
    return latest?.height === height ? latest : this.#all().get(height);
  }

  /** The chain has this block. True when it is durable and was unconfirmed. Throws `OffChainBlockError`. */
  confirm(block: BlockHead): boolean {
    const { height } = block;
    const head = this.#all().get(height);
    if (head === undefined || !this.#unconfirmed.has(height)) return false;
    if (head.id !== block.id) throw new OffChainBlockError(block, head.id);
    return this.#unconfirmed.delete(height);
  }

  /** True for a durable height that the watermark may pass. */
  isConfirmed(height: number): boolean {
    this.#all();
    return this.#store.hasHeight(height) && !this.#unconfirmed.has(height);
  }

  #all(): ReadonlyMap<number, BlockHead> {
    if (this.#inherited === undefined) {
      const inherited = new Map<number, BlockHead>();
      for (const head of this.#store.blocksAboveWatermark()) {
        inherited.set(head.height, head);
        this.#unconfirmed.add(head.height);
      }
      this.#inherited = inherited;
    }
    return this.#inherited;
  }
}
