import type { AccountReader } from '../../port/AccountIndex.js';
import type { IndexReader, ShownIndex } from '../../port/IndexStore.js';
import type { BlockHead, HeightRange, StoreMeta } from '../../port/stored.js';
import { RecordReader, type RecordSource } from './RecordReader.js';

const NOTHING: ShownIndex = {
  meta: undefined,
  latestIndexedHeight: 0,
  coverage: [],
  latestBlock: undefined,
  rewinds: 0,
  accounts: undefined,
};

/**
 * The read side of a store that another thread or process writes to. It does not follow progress: only what its owner
 * passes to `show` may be read. Show nothing before it is durable.
 */
export class Replica extends RecordReader implements IndexReader {
  readonly accounts: AccountReader = this.accountsOf(() => this.#shown.accounts);
  readonly close: () => Promise<void>;
  /** Why the database does not answer; `undefined` while it does, or there is none. */
  readonly trouble: () => string | undefined;
  #shown = NOTHING;

  constructor(source: RecordSource & Pick<Replica, 'close'> & Partial<Pick<Replica, 'trouble'>>) {
    super(source);
    this.close = source.close;
    this.trouble = source.trouble ?? (() => undefined);
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
}
