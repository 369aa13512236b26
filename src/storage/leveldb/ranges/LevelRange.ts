import { ok as assert } from 'node:assert/strict';
import type { RangeStore, CommitBatch } from '../../port/RangeStore.js';
import type { BlockHead, StoreMeta } from '../../port/stored.js';
import { readHead } from '../../records/blocks/readBlocks.js';
import { openAfter, openAt, stateOfOpen } from '../../records/book/changeBook.js';
import { withOpen, withProofs, withPublished } from '../../records/book/changeBook.js';
import { coverageOfBook, type OpenState, type StoreBook } from '../../records/book/StoreBook.js';
import { applyCommit, checkBorders } from '../../records/book/applyCommit.js';
import { RangeReader } from '../../records/reading/RangeReader.js';
import type { BookWriter, Change } from '../writing/BookWriter.js';

/** A run of an open range. */
export class LevelRange extends RangeReader implements RangeStore {
  readonly #queue: BookWriter;

  constructor(
    range: OpenState,
    below: BlockHead | undefined,
    parts: { readonly queue: BookWriter; readonly store: ConstructorParameters<typeof RangeReader>[2] },
  ) {
    super(range, below, parts.store);
    this.#queue = parts.queue;
  }

  stage(): void {
    // Nothing is prepared in advance: history can wait.
  }

  async commit(batch: CommitBatch): Promise<void> {
    const isLast = this.isLast(batch);
    let next = this.range;
    const change: Change = async (book) => {
      const open = openAt(book, this.range);
      assert(open !== undefined && !this.isEnded, 'the run of this range is over');
      const state = applyCommit(stateOfOpen(book, open), batch);
      if (isLast) await this.#checkBorders(book, state.meta, batch);
      next = openAfter(book, open, state);
      const after = isLast ? withPublished(book, next) : withOpen(book, next);
      return { after: withProofs(book, after, batch.blocks) };
    };
    await this.#queue.record('range', change, batch.blocks);
    this.range = next;
  }

  end(): Promise<void> {
    this.isEnded = true;
    return Promise.resolve();
  }

  #checkBorders(book: StoreBook, { sporks }: StoreMeta, { blocks }: CommitBatch): Promise<void> {
    const headAt = async (height: number): Promise<BlockHead> =>
      blocks.find(({ block }) => block.height === height)?.block ?? readHead(this.#queue.database, height);
    return checkBorders(this.range, { sporks, coverage: coverageOfBook(book) }, async (height) => [
      await headAt(height),
      await headAt(height + 1),
    ]);
  }
}
