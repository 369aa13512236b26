import type { AccountReader } from '../../port/AccountIndex.js';
import type { IndexReader, ShownIndex } from '../../port/IndexStore.js';
import type { BlockHead, HeightRange, StoreMeta } from '../../port/stored.js';
import { DelegatingReader } from './DelegatingReader.js';

const NOTHING: ShownIndex = {
  meta: undefined,
  latestIndexedHeight: 0,
  coverage: [],
  latestBlock: undefined,
  rewinds: 0,
  accounts: undefined,
};

/**
 * The read side of a store that somebody else writes to. It knows nothing of progress by itself: what may be read is what
 * it is told to `show`, and only once that is durable.
 */
export abstract class ShownReplica extends DelegatingReader implements IndexReader {
  abstract readonly accounts: AccountReader;
  #shown = NOTHING;

  get shown(): ShownIndex {
    return this.#shown;
  }

  show(shown: ShownIndex): void {
    this.#shown = shown;
  }

  meta(): StoreMeta | undefined {
    return this.#shown.meta;
  }

  coverage(): readonly HeightRange[] {
    return this.#shown.coverage;
  }

  latestIndexedHeight(): number {
    return this.#shown.latestIndexedHeight;
  }

  latestBlock(): BlockHead | undefined {
    return this.#shown.latestBlock;
  }

  rewinds(): number {
    return this.#shown.rewinds;
  }

  abstract close(): Promise<void>;
}
