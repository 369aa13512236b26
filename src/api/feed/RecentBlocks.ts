import type { IndexReader, StoredBlock } from '../../storage/index.js';

/** The most recently read blocks: all followers of the tip want the same one. */
const RECENT_BLOCKS = 64;

/**
 * Reads blocks, each once for everybody who wants it at about the same time. Indexed data never change while the daemon
 * runs, so nothing here can become stale.
 */
export class RecentBlocks {
  readonly #reader: Pick<IndexReader, 'blockByHeight'>;
  /** By height, least recently read first. */
  readonly #blocks = new Map<number, StoredBlock>();

  constructor(dependencies: { readonly reader: Pick<IndexReader, 'blockByHeight'> }) {
    this.#reader = dependencies.reader;
  }

  /** The block of this height if it is cached. */
  peek(height: number): StoredBlock | undefined {
    return this.#blocks.get(height);
  }

  /** The block of an indexed height. Expected errors: `StorageError`. */
  async read(height: number): Promise<StoredBlock> {
    const stored = await this.#reader.blockByHeight(height);
    if (stored === undefined) throw new Error(`height ${height} is indexed and cannot be read`);
    this.#blocks.set(height, stored);
    const [oldest] = this.#blocks.keys();
    if (this.#blocks.size > RECENT_BLOCKS && oldest !== undefined) this.#blocks.delete(oldest);
    return stored;
  }
}
