import { ok as assert } from 'node:assert/strict';
import type { BlockEntry, CommitBatch, RangeStore } from '../../port/RangeStore.js';
import type { BlockHead } from '../../port/stored.js';
import { applyCommit } from '../../records/book/applyCommit.js';
import { openAfter } from '../../records/book/changeBook.js';
import type { OpenState, StoreBook } from '../../records/book/StoreBook.js';
import { RangeReader } from '../../records/reading/RangeReader.js';
import { RangeLostError } from '../../StorageError.js';
import type { Session, WriteSession } from '../connection/Session.js';
import { deleteBlocks, readBook } from '../tables/bookRows.js';
import { BlockLine, type LineParts } from '../writing/BlockLine.js';
import { checkBordersOf, publish } from '../writing/changeRows.js';

export interface RunHooks {
  /** Runs in the transaction that publishes the range; its error rolls the transaction back. */
  readonly publishing?: (session: Session) => Promise<void>;
  /** Called before a write rejects with `RangeLostError`. */
  readonly onLost?: () => void;
}

interface Parts extends LineParts {
  readonly store: ConstructorParameters<typeof RangeReader>[2];
  readonly hooks: RunHooks;
  /** Takes over what the database says of the ranges. */
  readonly adopt: (ranges: StoreBook) => void;
  /** One publication at a time. */
  readonly inTurn: <T>(action: () => Promise<T>) => Promise<T>;
}

/** A run of an open range. */
export class PostgresRange extends RangeReader implements RangeStore {
  readonly #line: BlockLine;
  readonly #parts: Parts;
  #isPublished = false;

  constructor(range: OpenState, below: BlockHead | undefined, parts: Parts) {
    super(range, below, parts.store);
    this.#line = new BlockLine(parts);
    this.#parts = parts;
  }

  stage(entry: BlockEntry): void {
    this.#line.stage(entry);
  }

  async commit(batch: CommitBatch): Promise<void> {
    assert(!this.#isPublished, 'the range is published');
    const { isWhole } = this.extentOf(batch);
    // The range is published with it.
    await (isWhole ? this.#parts.inTurn(() => this.#commit(batch)) : this.#commit(batch));
  }

  async #commit(batch: CommitBatch): Promise<void> {
    const { range } = this;
    const { adopt, hooks, store } = this.#parts;
    const { isAtBorder, isWhole } = this.extentOf(batch);
    const state = applyCommit(this.state(), batch);
    const write = async (session: WriteSession): Promise<StoreBook | undefined> => {
      const { next, sporks } = openAfter(store.initialised(), range, state);
      if (isWhole) {
        const book = await publish(session, range, sporks);
        await hooks.publishing?.(session);
        return book;
      }
      if (isAtBorder) await checkBordersOf(session, range, state.meta);
      session.later({
        name: 'range_progress',
        text: 'UPDATE flow_store.open_range SET next_height = $2, sporks = $3 WHERE from_height = $1',
        values: [range.from, next, JSON.stringify(sporks)],
      });
      return undefined;
    };
    const isGone = async (session: Session): Promise<boolean> =>
      isWhole &&
      (await readBook(session)).coverage.some(({ from, to }) => from <= range.from && to >= range.to);
    const published = await this.#reportingLoss(() => this.#line.commit(batch.blocks, write, isGone));
    this.range = openAfter(store.initialised(), range, state);
    this.#isPublished = isWhole;
    if (published !== undefined) adopt(published);
  }

  async forgetAbove(): Promise<void> {
    const { above, next, to } = this.range;
    if (this.isEnded || above.size === 0) return;
    await this.#reportingLoss(() => this.#line.write((session) => deleteBlocks(session, next, to)));
    this.range = { ...this.range, above: new Map() };
  }

  /** Waits for the write under way. */
  end(): Promise<void> {
    this.isEnded = true;
    return this.#line.end();
  }

  /** Calls `onLost` when the range turns out to be lost. */
  async #reportingLoss<T>(write: () => Promise<T>): Promise<T> {
    try {
      // This process lost the range and took it again: the indexing line of this run may not know yet.
      if (this.isEnded) throw new RangeLostError(this.#parts.database.place);
      return await write();
    } catch (error) {
      if (error instanceof RangeLostError) this.#parts.hooks.onLost?.();
      throw error;
    }
  }
}
