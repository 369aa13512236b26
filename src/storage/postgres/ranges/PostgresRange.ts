import { ok as assert } from 'node:assert/strict';
import { RangeLostError } from '../../port/RangeLostError.js';
import type { BlockEntry, CommitBatch, RangeStore } from '../../port/RangeStore.js';
import type { BlockHead, HeightRange, SporkRecord, StoredBlock, StoreMeta } from '../../port/stored.js';
import { bothSporks, sporksBesides } from '../../records/book/changeBook.js';
import type { RecordReader } from '../../records/reading/RecordReader.js';
import type { Session, WriteSession } from '../connection/Session.js';
import { readCoverage, readHeads } from '../tables/readState.js';
import { BlockLine, deleteBlocks } from '../writing/BlockLine.js';
import type { LineState, LineWriting } from '../writing/BlockLine.js';
import { checkBorders, publish } from '../writing/changeRows.js';
import type { Published } from '../writing/changeRows.js';
import type { RunHooks } from './SharedRangeBook.js';

export interface PostgresRangeDependencies extends LineWriting {
  /** Reads the covered heights, and those of the run. */
  readonly reader: RecordReader;
  /** Where the store is, for messages. */
  readonly place: string;
  readonly storeMeta: () => StoreMeta;
  /** The range that begins at `from` is durable up to `next`, or published. */
  readonly onProgress: (from: number, next: number) => void;
  readonly onPublished: (published: Published) => void;
  readonly hooks: RunHooks;
  /** One publication at a time. */
  readonly inTurn: <T>(action: () => Promise<T>) => Promise<T>;
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
  readonly #deps: PostgresRangeDependencies;
  readonly #below: BlockHead | undefined;
  #sporks: readonly SporkRecord[];
  #isPublished = false;
  /** Another run has taken over. */
  #isEnded = false;

  constructor(
    range: HeightRange,
    { sporks, below, ...state }: RangeState,
    dependencies: PostgresRangeDependencies,
  ) {
    this.#range = range;
    this.#sporks = sporks;
    this.#below = below;
    this.#line = new BlockLine(state, { ...dependencies, meta: () => this.meta() });
    this.#deps = dependencies;
  }

  meta(): StoreMeta {
    const meta = this.#deps.storeMeta();
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
    return this.#deps.reader.blockByHeight(height);
  }

  stage(entry: BlockEntry): void {
    this.#line.stage(entry);
  }

  async commit(batch: CommitBatch): Promise<void> {
    assert(!this.#isPublished, 'the range is published');
    const { from, to } = this.#range;
    const highest = Math.max(batch.latestIndexedHeight, ...batch.blocks.map(({ block }) => block.height));
    assert(highest <= to, `height ${highest} is above the range, which ends at ${to}`);
    await this.#reportingLoss(() =>
      batch.latestIndexedHeight === to
        ? this.#deps.inTurn(() => this.#publish(batch))
        : this.#progress(batch),
    );
    this.#deps.onProgress(from, batch.latestIndexedHeight + 1);
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
        this.#deps.fence().write(async (session) => {
          await deleteBlocks(session, height + 1, to);
          this.#writeProgress(session, watermark, this.#sporks);
          return watermark < from ? [] : readHeads(session, watermark, watermark);
        }),
      ),
    );
    const kept = new Map([...above].filter(([each]) => each <= height));
    this.#line.change({ latestIndexedHeight: watermark, latestBlock, above: kept });
    this.#deps.onProgress(from, watermark + 1);
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
      if (this.#isEnded) throw new RangeLostError(this.#deps.place);
      return await write();
    } catch (error) {
      if (error instanceof RangeLostError) this.#deps.hooks.onLost?.();
      throw error;
    }
  }

  async #progress(batch: CommitBatch): Promise<void> {
    const { from, to } = this.#range;
    const isAtBorder = batch.blocks.some(({ block }) => block.height === from || block.height === to);
    this.#sporks = await this.#line.commit(batch, {
      write: async (session, next) => {
        const sporks = sporksBesides(this.#deps.storeMeta().sporks, next.meta.sporks);
        if (isAtBorder) await checkBorders(session, this.#range, next.meta);
        this.#writeProgress(session, next.latestIndexedHeight, sporks);
        return sporks;
      },
    });
  }

  async #publish(batch: CommitBatch): Promise<void> {
    // It may have ended while it waited for its turn.
    if (this.#isEnded) throw new RangeLostError(this.#deps.place);
    const published = await this.#line.commit(batch, {
      write: async (session, { meta }) => {
        const own = sporksBesides(this.#deps.storeMeta().sporks, meta.sporks);
        const result = await publish(session, this.#range, own);
        await this.#deps.hooks.publishing?.(session);
        return result;
      },
      isGone: (session) => this.#isCovered(session),
    });
    this.#isPublished = true;
    this.#deps.onPublished(published);
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
