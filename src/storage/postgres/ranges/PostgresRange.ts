import { ok as assert } from 'node:assert/strict';
import { RangeLostError } from '../../port/RangeLostError.js';
import type { BlockEntry, CommitBatch, RangeStore } from '../../port/RangeStore.js';
import type { BlockHead, HeightRange, SporkRecord, StoredBlock, StoreMeta } from '../../port/stored.js';
import { bothSporks, sporksBesides } from '../../records/book/changeBook.js';
import type { RecordReader } from '../../records/reading/RecordReader.js';
import type { PostgresDatabase } from '../connection/PostgresDatabase.js';
import type { Session, WriteSession } from '../connection/Session.js';
import { deleteBlocks } from '../tables/bookRows.js';
import { readCoverage, readHeads } from '../tables/readState.js';
import { BlockLine } from '../writing/BlockLine.js';
import type { LineParts, LineState } from '../writing/BlockLine.js';
import { checkBorders, publish } from '../writing/changeRows.js';
import type { Published } from '../writing/changeRows.js';
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
  readonly storeMeta: () => StoreMeta;
  readonly onPublished: (published: Published) => void;
  /** One publication at a time. */
  readonly inTurn: <T>(action: () => Promise<T>) => Promise<T>;
}

interface RunParts extends RangeParts {
  readonly fence: Fence;
  readonly hooks: RunHooks;
  /** The range is durable up to `next`, or published. */
  readonly onProgress: (next: number) => void;
}

/** The stored part of an open range. */
export interface RangeState extends LineState {
  /** First seen with its blocks. */
  readonly sporks: readonly SporkRecord[];
  /** The covered block below it. */
  readonly below: BlockHead | undefined;
}

/** An open range that is being filled. */
export class PostgresRange implements RangeStore {
  readonly #range: HeightRange;
  readonly #line: BlockLine;
  readonly #parts: RunParts;
  readonly #below: BlockHead | undefined;
  #sporks: readonly SporkRecord[];
  #isPublished = false;
  /** Another run has taken over. */
  #isEnded = false;

  constructor(range: HeightRange, { sporks, below, ...state }: RangeState, parts: RunParts) {
    this.#range = range;
    this.#sporks = sporks;
    this.#below = below;
    this.#line = new BlockLine(state, { ...parts, fence: () => parts.fence, meta: () => this.meta() });
    this.#parts = parts;
  }

  meta(): StoreMeta {
    const meta = this.#parts.storeMeta();
    return { ...meta, firstHeight: this.#range.from, sporks: bothSporks(meta.sporks, this.#sporks) };
  }

  latestIndexedHeight(): number {
    return this.#line.state.latestIndexedHeight;
  }

  latestBlock(): BlockHead | undefined {
    return this.#line.state.latestBlock ?? this.#below;
  }

  blocksAboveWatermark(): readonly BlockHead[] {
    return this.#line.blocksAboveWatermark();
  }

  hasHeight(height: number): boolean {
    return this.#line.hasHeight(height);
  }

  blockByHeight(height: number): Promise<StoredBlock | undefined> {
    const { reader } = this.#parts;
    const { from } = this.#range;
    const isPassed = height >= from && height <= this.latestIndexedHeight();
    return isPassed ? reader.durableBlock(height) : reader.blockByHeight(height);
  }

  stage(entry: BlockEntry): void {
    this.#line.stage(entry);
  }

  async commit(batch: CommitBatch): Promise<void> {
    assert(!this.#isPublished, 'the range is published');
    const { to } = this.#range;
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
    const { from, to } = this.#range;
    assert(Number.isSafeInteger(height) && height >= from - 1, `the range begins at height ${from}`);
    const { above, latestIndexedHeight } = this.#line.state;
    if (this.#isEnded) return;
    if (Math.max(latestIndexedHeight, ...above.keys()) <= height) return;
    const watermark = Math.min(latestIndexedHeight, height);
    this.#line.discardStaged();
    const [latestBlock] = await this.#reportingLoss(() =>
      this.#line.alone(() =>
        this.#parts.fence.write(async (session) => {
          await deleteBlocks(session, height + 1, to);
          this.#writeProgress(session, watermark, this.#sporks);
          return watermark < from ? [] : readHeads(session, watermark, watermark);
        }),
      ),
    );
    const kept = new Map([...above].filter(([each]) => each <= height));
    this.#line.change({ latestIndexedHeight: watermark, latestBlock, above: kept });
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
    const { from, to } = this.#range;
    const isAtBorder = batch.blocks.some(({ block }) => block.height === from || block.height === to);
    this.#sporks = await this.#line.commit(batch, {
      write: async (session, next) => {
        const sporks = sporksBesides(this.#parts.storeMeta().sporks, next.meta.sporks);
        if (isAtBorder) await checkBorders(session, this.#range, next.meta);
        this.#writeProgress(session, next.latestIndexedHeight, sporks);
        return sporks;
      },
    });
  }

  async #publish(batch: CommitBatch): Promise<void> {
    // It may have ended while it waited for its turn.
    if (this.#isEnded) throw new RangeLostError(this.#parts.database.place);
    const published = await this.#line.commit(batch, {
      write: async (session, { meta }) => {
        const own = sporksBesides(this.#parts.storeMeta().sporks, meta.sporks);
        const result = await publish(session, this.#range, own);
        await this.#parts.hooks.publishing?.(session);
        return result;
      },
      isGone: (session) => this.#isCovered(session),
    });
    this.#isPublished = true;
    this.#parts.onPublished(published);
  }

  #writeProgress(session: WriteSession, watermark: number, sporks: readonly SporkRecord[]): void {
    session.later({
      name: 'range_progress',
      text: 'UPDATE flow_store.open_range SET next_height = $2, sporks = $3 WHERE from_height = $1',
      values: [this.#range.from, watermark + 1, JSON.stringify(sporks)],
    });
  }

  async #isCovered(session: Session): Promise<boolean> {
    const { from, to } = this.#range;
    return (await readCoverage(session)).some((each) => each.from <= from && each.to >= to);
  }
}
