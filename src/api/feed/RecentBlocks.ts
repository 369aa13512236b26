import type { IndexReader, StoredBlock } from '../../storage/index.js';

/** The blocks read last: those who follow the tip all want the same one. */
const RECENT_BLOCKS = 64;

/**
 * Reads blocks, each once for all who want it about the same time. What is indexed never changes while the daemon runs, so
 * nothing here can be outdated.
 */
export class RecentBlocks {
  readonly #reader: Pick<IndexReader, 'blockByHeight'>;
  /** By height, the one that was read longest ago first. */
  readonly #blocks = new Map<number, StoredBlock>();

  constructor(dependencies: { readonly reader: Pick<IndexReader, 'blockByHeight'> }) {
    this.#reader = dependencies.reader;
  }

  /** The block of this height where it is at hand. */
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
