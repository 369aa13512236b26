import { ok as assert } from 'node:assert/strict';
import type { Logger } from '../../../observability/index.js';
import type { RangeChange } from '../../port/RangeBook.js';
import type { RangeStore, CommitBatch } from '../../port/RangeStore.js';
import type { HeightRange, BlockHead } from '../../port/stored.js';
import {
  newRange,
  openAt,
  settled,
  withOpen,
  withRangeChange,
  openAfter,
  stateOfOpen,
  withProofs,
  withPublished,
} from '../../records/book/changeBook.js';
import { coverageOfBook, hasHeight } from '../../records/book/StoreBook.js';
import { applyCommit, checkBorders } from '../../records/book/applyCommit.js';
import { headOf } from '../../records/blocks/readBlocks.js';
import type { OpenState, StoreBook, StoreState } from '../../records/book/StoreBook.js';
import { RangeReader } from '../../records/reading/RangeReader.js';
import { RunBook } from '../../records/RunBook.js';
import type { RecordReader } from '../../records/reading/RecordReader.js';
import { unlessDamaged } from '../../StorageError.js';
import { removeRange } from '../removal/rewind.js';
import type { Change, HeadAt, BookWriter } from '../writing/BookWriter.js';

/** The plans and the open ranges of an open store. */
export class LevelRangeBook extends RunBook<LevelRangeStore> {
  readonly #parts: RangeParts;

  constructor(parts: RangeParts) {
    super(() => parts.queue.book());
    this.#parts = parts;
  }

  async change(change: RangeChange): Promise<void> {
    const { queue, logger } = this.#parts;
    const { dropped = [] } = change;
    for (const { from } of dropped) await this.endRun(from);
    await queue.record('range', (book) => {
      const after = withRangeChange(book, change);
      return after === book ? undefined : { after };
    });
    for (const range of dropped) await removeRange(range, queue, logger);
  }

  async run(range: HeightRange): Promise<RangeStore> {
    const { queue, reader } = this.#parts;
    await this.endRun(range.from);
    await queue.record('range', (book) => {
      const open = openAt(book, range);
      assert(open?.record.keep === undefined, 'blocks of this range are being removed');
      if (open !== undefined) return undefined;
      return { after: settled(withOpen(book, newRange(book, range))) };
    });
    // Where it is damaged, it becomes a hole.
    const below = await unlessDamaged(() => reader.blockByHeight(range.from - 1));
    const run = new LevelRangeStore(range, below && headOf(below), this.#parts);
    this.runs.set(range.from, run);
    return run;
  }

  /** Finishes removals that an earlier process began. Expected errors: `StorageError`. */
  async finishRemovals(): Promise<void> {
    const { queue, logger } = this.#parts;
    for (const { record } of queue.book()?.open ?? []) {
      const { from, to, keep } = record;
      if (keep !== undefined) logger.info({ from, to }, 'finishing the removal of a range');
      await removeRange(record, queue, logger);
    }
  }
}

interface RangeParts {
  readonly queue: BookWriter;
  readonly reader: RecordReader;
  readonly logger: Logger;
}

class LevelRangeStore extends RangeReader implements RangeStore {
  readonly #queue: BookWriter;
  readonly #logger: Logger;
  /** The last known state of a range that was published, or that another run has taken over. */
  #last: StoreState | undefined;
  #isOver = false;

  /** `below`: the covered block below the range, if there is one. */
  constructor(range: HeightRange, below: BlockHead | undefined, { queue, reader, logger }: RangeParts) {
    super(range, below, reader);
    this.#queue = queue;
    this.#logger = logger;
  }

  stage(): void {
    // Nothing is prepared in advance: history can wait.
  }

  async commit(batch: CommitBatch): Promise<void> {
    const queue = this.#queue;
    const change: Change = async (book, headAt) => {
      const open = this.#openIn(book);
      const state = applyCommit(stateOfOpen(book, open), batch);
      const { isAtBorder, isWhole } = this.extentOf(batch);
      // Again when the range is complete: a neighbour may have been published meanwhile.
      if (isAtBorder || isWhole) await this.#checkBorders(book, state, batch, headAt);
      const next = openAfter(book, open, state);
      if (isWhole) this.#last = state;
      const after = isWhole ? withPublished(book, next) : withOpen(book, next);
      return { after: withProofs(book, after, batch.blocks) };
    };
    await queue.record('range', change, batch.blocks);
  }

  async forgetAbove(): Promise<void> {
    const queue = this.#queue;
    if (this.state().above.size === 0) return;
    await queue.record('range', (book) => {
      const { record, line } = this.#openIn(book);
      const left = { record: { ...record, keep: record.next - 1 }, line: { ...line, above: new Map() } };
      return { after: withOpen(book, left) };
    });
    await removeRange(this.range, queue, this.#logger);
  }

  /** The run is over: its range is dropped, or another run takes over. */
  end(): Promise<void> {
    this.#last = this.state();
    this.#isOver = true;
    return Promise.resolve();
  }

  state(): StoreState {
    const book = this.#queue.initialised();
    const open = this.#isOver ? undefined : openAt(book, this.range);
    const state = open === undefined ? this.#last : stateOfOpen(book, open);
    assert(state !== undefined, 'the range is not open');
    return state;
  }

  #openIn(book: StoreBook): OpenState {
    const open = openAt(book, this.range);
    assert(open !== undefined && !this.#isOver, 'the run of this range is over');
    return open;
  }

  /** `state`: with the blocks of the batch. */
  #checkBorders(book: StoreBook, state: StoreState, { blocks }: CommitBatch, headAt: HeadAt): Promise<void> {
    const { from, to } = this.range;
    const known = async (height: number): Promise<BlockHead | undefined> => {
      const added = blocks.find(({ block }) => block.height === height)?.block;
      const isOwn = height >= from && height <= to;
      return added ?? (isOwn && !hasHeight(state, height) ? undefined : headAt(height));
    };
    const borders = { sporks: state.meta.sporks, coverage: coverageOfBook(book) };
    return checkBorders(this.range, borders, async (height) => [
      await known(height),
      await known(height + 1),
    ]);
  }
}
