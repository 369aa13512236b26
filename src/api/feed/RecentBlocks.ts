import type { IndexReader, StoredBlock } from '../../storage/index.js';

/** The most recently read blocks: all followers of the tip want the same one. */
const RECENT_BLOCKS = 64;

/** Reads blocks through a cache. Indexed data never changes, unless another process rewinds it. */
export class RecentBlocks {
  readonly #reader: Pick<IndexReader, 'blockByHeight'>;
  /** By height, least recently read first. */
  readonly #blocks = new Map<number, StoredBlock>();

  constructor(dependencies: { readonly reader: Pick<IndexReader, 'blockByHeight'> }) {
    this.#reader = dependencies.reader;
  }

  /** Call it when heights above this one are no longer indexed. */
  forgetAbove(latestIndexed: number): void {
    for (const height of [...this.#blocks.keys()]) if (height > latestIndexed) this.#blocks.delete(height);
  }

  /** The block of an indexed height. Expected errors: `StorageError`. */
  async read(height: number): Promise<StoredBlock> {
    const cached = this.#blocks.get(height);
    if (cached !== undefined) return cached;
    const stored = await this.#reader.blockByHeight(height);
    if (stored === undefined) throw new Error(`height ${height} is indexed but cannot be read`);
    this.#blocks.set(height, stored);
    const [oldest] = this.#blocks.keys();
    if (this.#blocks.size > RECENT_BLOCKS && oldest !== undefined) this.#blocks.delete(oldest);
    return stored;
  }
}
