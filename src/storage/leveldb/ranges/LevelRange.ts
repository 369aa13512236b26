import { ok as assert } from 'node:assert/strict';
import type { Logger } from '../../../observability/index.js';
import type { RangeStore, CommitBatch } from '../../port/RangeStore.js';
import type { BlockHead } from '../../port/stored.js';
import { readHead } from '../../records/blocks/readBlocks.js';
import { openAfter, openAt, stateOfOpen } from '../../records/book/changeBook.js';
import { withOpen, withProofs, withPublished } from '../../records/book/changeBook.js';
import { coverageOfBook, hasHeight } from '../../records/book/StoreBook.js';
import type { OpenState, StoreBook, StoreState } from '../../records/book/StoreBook.js';
import { applyCommit, checkBorders } from '../../records/book/applyCommit.js';
import { RangeReader } from '../../records/reading/RangeReader.js';
import { removeRange } from '../removal/rewind.js';
import type { BookWriter, Change } from '../writing/BookWriter.js';

/** A run of an open range. */
export class LevelRange extends RangeReader implements RangeStore {
  readonly #queue: BookWriter;
  readonly #logger: Logger;

  constructor(
    range: OpenState,
    below: BlockHead | undefined,
    parts: {
      readonly queue: BookWriter;
      readonly store: ConstructorParameters<typeof RangeReader>[2];
      readonly logger: Logger;
    },
  ) {
    super(range, below, parts.store);
    this.#queue = parts.queue;
    this.#logger = parts.logger;
  }

  stage(): void {
    // Nothing is prepared in advance: history can wait.
  }

  async commit(batch: CommitBatch): Promise<void> {
    const queue = this.#queue;
    let next = this.range;
    const change: Change = async (book) => {
      const open = this.#openIn(book);
      const state = applyCommit(stateOfOpen(book, open), batch);
      const { isAtBorder, isWhole } = this.extentOf(batch);
      // Again when the range is complete: a neighbour may have been published meanwhile.
      if (isAtBorder || isWhole) await this.#checkBorders(book, state, batch);
      next = openAfter(book, open, state);
      const after = isWhole ? withPublished(book, next) : withOpen(book, next);
      return { after: withProofs(book, after, batch.blocks) };
    };
    await queue.record('range', change, batch.blocks);
    this.range = next;
  }

  async forgetAbove(): Promise<void> {
    const queue = this.#queue;
    if (this.range.above.size === 0) return;
    const above = new Map();
    await queue.record('range', (book) => {
      const open = this.#openIn(book);
      return { after: withOpen(book, { ...open, keep: open.next - 1, above }) };
    });
    this.range = { ...this.range, above };
    await removeRange(this.range, queue, this.#logger);
  }

  end(): Promise<void> {
    this.isEnded = true;
    return Promise.resolve();
  }

  #openIn(book: StoreBook): OpenState {
    const open = openAt(book, this.range);
    assert(open !== undefined && !this.isEnded, 'the run of this range is over');
    return open;
  }

  /** `state`: with the blocks of the batch. */
  #checkBorders(book: StoreBook, state: StoreState, { blocks }: CommitBatch): Promise<void> {
    const { from, to } = this.range;
    const known = async (height: number): Promise<BlockHead | undefined> => {
      const added = blocks.find(({ block }) => block.height === height)?.block;
      const isOwn = height >= from && height <= to;
      return (
        added ?? (isOwn && !hasHeight(state, height) ? undefined : readHead(this.#queue.database, height))
      );
    };
    const borders = { sporks: state.meta.sporks, coverage: coverageOfBook(book) };
    return checkBorders(this.range, borders, async (height) => [
      await known(height),
      await known(height + 1),
    ]);
  }
}
