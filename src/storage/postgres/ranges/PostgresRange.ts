import { ok as assert } from 'node:assert/strict';
import { RangeLostError } from '../../port/RangeLostError.js';
import type { BlockEntry, CommitBatch, RangeStore } from '../../port/RangeStore.js';
import type { BlockHead, SporkRecord } from '../../port/stored.js';
import { openAfter, stateOfOpen } from '../../records/book/changeBook.js';
import type { OpenState, StoreBook, StoreState } from '../../records/book/StoreBook.js';
import { RangeReader } from '../../records/reading/RangeReader.js';
import type { RecordReader } from '../../records/reading/RecordReader.js';
import type { PostgresDatabase } from '../connection/PostgresDatabase.js';
import type { Session, WriteSession } from '../connection/Session.js';
import { deleteBlocks } from '../tables/bookRows.js';
import { readCoverage, readHeads } from '../tables/readState.js';
import { BlockLine } from '../writing/BlockLine.js';
import type { LineParts } from '../writing/BlockLine.js';
import { checkBordersOf, publish } from '../writing/changeRows.js';
import type { Fence } from '../writing/Fence.js';

export interface RunHooks {
  /** Runs in the transaction that publishes the range; its error rolls the transaction back. */
  readonly publishing?: (session: Session) => Promise<void>;
  /** Called before a write rejects with `RangeLostError`. */
  readonly onLost?: () => void;
}

/** What the ranges of a store use of it. */
export interface RangeParts extends Pick<LineParts, 'partitions' | 'scripts'> {
  readonly database: PostgresDatabase;
  readonly reader: RecordReader;
  /** `undefined` for a store that was never initialised. */
  readonly book: () => StoreBook | undefined;
  /** Takes over what the database says of the ranges. */
  readonly adopt: (ranges: Partial<Pick<StoreBook, 'live' | 'published' | 'plans' | 'open'>>) => void;
  /** One publication at a time. */
  readonly inTurn: <T>(action: () => Promise<T>) => Promise<T>;
}

interface RunParts extends RangeParts {
  readonly fence: Fence;
  readonly hooks: RunHooks;
  /** The range is durable up to `next`, or published. */
  readonly onProgress: (next: number) => void;
  readonly onPublished: (book: StoreBook) => void;
}

/** An open range that is being filled. */
export class PostgresRange extends RangeReader implements RangeStore {
  readonly #line: BlockLine;
  readonly #parts: RunParts;
  #open: OpenState;
  #isPublished = false;
  /** Another run has taken over. */
  #isEnded = false;

  constructor(open: OpenState, below: BlockHead | undefined, parts: RunParts) {
    super(open.record, below, parts.reader);
    this.#open = open;
    this.#line = new BlockLine({
      ...parts,
      fence: () => parts.fence,
      state: () => this.state(),
      onDurable: (next) => (this.#open = openAfter(this.#book(), this.#open, next)),
    });
    this.#parts = parts;
  }

  state(): StoreState {
    return stateOfOpen(this.#book(), this.#open);
  }

  stage(entry: BlockEntry): void {
    this.#line.stage(entry);
  }

  async commit(batch: CommitBatch): Promise<void> {
    assert(!this.#isPublished, 'the range is published');
    const { to } = this.range;
    const highest = Math.max(batch.latestIndexedHeight, ...batch.blocks.map(({ block }) => block.height));
    assert(highest <= to, `height ${highest} is above the range, which ends at ${to}`);
    await this.#reportingLoss(() =>
      batch.latestIndexedHeight === to
        ? this.#parts.inTurn(() => this.#publish(batch))
        : this.#progress(batch),
    );
    this.#parts.onProgress(batch.latestIndexedHeight + 1);
  }

  async rewind(height: number): Promise<void> {
    const { from, to } = this.range;
    assert(Number.isSafeInteger(height) && height >= from - 1, `the range begins at height ${from}`);
    const { above, latestIndexedHeight } = this.state();
    if (this.#isEnded) return;
    if (Math.max(latestIndexedHeight, ...above.keys()) <= height) return;
    const watermark = Math.min(latestIndexedHeight, height);
    this.#line.discardStaged();
    const [latestBlock] = await this.#reportingLoss(() =>
      this.#line.alone(() =>
        this.#parts.fence.write(async (session) => {
          await deleteBlocks(session, height + 1, to);
          this.#writeProgress(session, watermark, this.#open.record.sporks);
          return watermark < from ? [] : readHeads(session, watermark, watermark);
        }),
      ),
    );
    const kept = new Map([...above].filter(([each]) => each <= height));
    const line = { latestIndexedHeight: watermark, latestBlock, above: kept, damaged: false };
    this.#open = { ...this.#open, line };
    this.#parts.onProgress(watermark + 1);
  }

  /** The run is over: its range is dropped, or another run takes over. Waits for the write under way. */
  end(): Promise<void> {
    this.#isEnded = true;
    return this.#line.end();
  }

  /** Calls `onLost` when the range turns out to be lost. */
  async #reportingLoss<T>(write: () => Promise<T>): Promise<T> {
    try {
      // This process lost the range and took it again: the indexing line of this run may not know yet.
      if (this.#isEnded) throw new RangeLostError(this.#parts.database.place);
      return await write();
    } catch (error) {
      if (error instanceof RangeLostError) this.#parts.hooks.onLost?.();
      throw error;
    }
  }

  async #progress(batch: CommitBatch): Promise<void> {
    const { from, to } = this.range;
    const isAtBorder = batch.blocks.some(({ block }) => block.height === from || block.height === to);
    await this.#line.commit(batch, {
      write: async (session, next) => {
        if (isAtBorder) await checkBordersOf(session, this.range, next.meta);
        this.#writeProgress(session, next.latestIndexedHeight, this.#sporksIn(next));
      },
    });
  }

  async #publish(batch: CommitBatch): Promise<void> {
    // It may have ended while it waited for its turn.
    if (this.#isEnded) throw new RangeLostError(this.#parts.database.place);
    const published = await this.#line.commit(batch, {
      write: async (session, next) => {
        const result = await publish(session, this.range, this.#sporksIn(next));
        await this.#parts.hooks.publishing?.(session);
        return result;
      },
      isGone: (session) => this.#isCovered(session),
    });
    this.#isPublished = true;
    this.#parts.onPublished(published);
  }

  #book(): StoreBook {
    const book = this.#parts.book();
    assert(book !== undefined, 'the store is not initialised');
    return book;
  }

  /** First seen with its blocks. */
  #sporksIn(next: StoreState): readonly SporkRecord[] {
    return openAfter(this.#book(), this.#open, next).record.sporks;
  }

  #writeProgress(session: WriteSession, watermark: number, sporks: readonly SporkRecord[]): void {
    session.later({
      name: 'range_progress',
      text: 'UPDATE flow_store.open_range SET next_height = $2, sporks = $3 WHERE from_height = $1',
      values: [this.range.from, watermark + 1, JSON.stringify(sporks)],
    });
  }

  async #isCovered(session: Session): Promise<boolean> {
    const { from, to } = this.range;
    return (await readCoverage(session)).some((each) => each.from <= from && each.to >= to);
  }
}
