import { ok as assert } from 'node:assert/strict';
import type { BlockEntry, CommitBatch, RangeStore } from '../../port/RangeStore.js';
import type { BlockHead } from '../../port/stored.js';
import { applyCommit } from '../../records/book/applyCommit.js';
import { openAfter } from '../../records/book/changeBook.js';
import type { OpenState } from '../../records/book/StoreBook.js';
import { RangeReader } from '../../records/reading/RangeReader.js';
import { RangeLostError } from '../../StorageError.js';
import type { Session, WriteSession } from '../connection/Session.js';
import { readBook } from '../tables/bookRows.js';
import { blockLine, type BlockLine, type LineParts } from '../writing/blockLine.js';
import { publish } from '../writing/changeRows.js';

/** Runs in the transaction that publishes a range; its error rolls the transaction back. */
export type Publishing = (session: Session) => Promise<void>;

interface Parts extends LineParts {
  readonly store: ConstructorParameters<typeof RangeReader>[2];
  readonly publishing: Publishing | undefined;
  /** Takes over what the database says, once the range is published. */
  readonly refresh: () => Promise<unknown>;
}

/** A run of an open range. */
export class PostgresRange extends RangeReader implements RangeStore {
  readonly #line: BlockLine;
  readonly #parts: Parts;
  #isPublished = false;

  constructor(range: OpenState, below: BlockHead | undefined, parts: Parts) {
    super(range, below, parts.store);
    this.#line = blockLine(parts);
    this.#parts = parts;
  }

  stage(entry: BlockEntry): void {
    this.#line.stage(entry);
  }

  async commit(batch: CommitBatch): Promise<void> {
    assert(!this.#isPublished, 'the range is published');
    const { range } = this;
    const { database, publishing, refresh, store } = this.#parts;
    // This process lost the range and took it again: the indexing line of this run may not know yet.
    if (this.isEnded) throw new RangeLostError(database.place);
    const isLast = this.isLast(batch);
    const state = applyCommit(this.state(), batch);
    const write = async (session: WriteSession): Promise<void> => {
      const { next, sporks } = openAfter(store.initialised(), range, state);
      if (isLast) {
        await publish(session, range, sporks);
        await publishing?.(session);
      } else
        session.later({
          name: 'range_progress',
          text: 'UPDATE flow_store.open_range SET next_height = $2, sporks = $3 WHERE from_height = $1',
          values: [range.from, next, JSON.stringify(sporks)],
        });
    };
    const isGone = async (session: Session): Promise<boolean> =>
      isLast &&
      (await readBook(session)).coverage.some(({ from, to }) => from <= range.from && to >= range.to);
    await this.#line.commit(batch.blocks, write, isGone);
    this.range = openAfter(store.initialised(), range, state);
    this.#isPublished = isLast;
    if (isLast) await refresh();
  }

  /** Waits for the write under way. */
  end(): Promise<void> {
    this.isEnded = true;
    return this.#line.end();
  }
}
