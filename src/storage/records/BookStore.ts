import { ok as assert } from 'node:assert/strict';
import type { Logger } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import type { OpenRange, RangeBook } from '../port/RangeBook.js';
import type { BlockEntry, RangeStore } from '../port/RangeStore.js';
import type { BlockHead, StoreMeta } from '../port/stored.js';
import { applyCommit } from './book/applyCommit.js';
import { openAfter, stateOfOpen } from './book/changeBook.js';
import { healingIn, rewoundBook } from './book/repairedBook.js';
import { blocksAbove, coverageOfBook, hasHeight } from './book/StoreBook.js';
import type { OpenState, StoreBook, StoreState } from './book/StoreBook.js';
import { within, type HeightRanges } from './heightRanges.js';
import { RecordReader, type RecordSource } from './reading/RecordReader.js';
import { PROOFS_SCHEMA_VERSION } from './schema.js';

/** How an engine writes a run of an open range. */
export interface RunWriter extends Pick<RangeStore, 'stage'> {
  /** Writes blocks, and the range that includes them; a whole range is published. Rejects like `RangeStore.commit`. */
  write(blocks: readonly BlockEntry[], after: OpenState): Promise<void>;
  /** The range is dropped, or another run has taken over: writes nothing more, and waits for the write under way. */
  end(): Promise<void>;
}

/** What every store that knows its book has in common; the members of `RangeStore` are those of the live range. */
export abstract class BookStore extends RecordReader {
  /** The latest run of each open range, by its first height. */
  readonly #runs = new Map<number, RangeStore & Pick<RunWriter, 'end'>>();
  readonly dependencies: { readonly clock: Clock; readonly logger: Logger };
  /** How often readable blocks were removed. */
  removals = 0;
  #closing: Promise<void> | undefined;

  constructor(source: RecordSource, dependencies: { readonly clock: Clock; readonly logger: Logger }) {
    super(source);
    this.dependencies = dependencies;
  }

  /** `undefined` for a store that was never initialised. */
  abstract book(): StoreBook | undefined;
  /** For `rewind`: removes what is stored above a height, in all ranges, and reloads the book. */
  abstract removeAbove(height: number, onStep?: (highest: number) => void): Promise<void>;
  /** For `close`. */
  abstract end(): Promise<void>;

  /** Damaged records above the target are removed as well. */
  async rewind(height: number, onStep?: (highest: number) => void): Promise<void> {
    const { clock, logger } = this.dependencies;
    const book = this.initialised();
    const { above, damage, latestIndexedHeight, meta } = book;
    const { after } = rewoundBook(book, height);
    if (Math.max(latestIndexedHeight, ...above.keys()) <= height && damage === undefined) return;
    if (after.meta.firstHeight !== meta.firstHeight) await this.endRuns();
    const startedAtMs = clock.monotonic();
    await this.removeAbove(height, onStep);
    logger.info({ height, durationMs: Math.round(clock.monotonic() - startedAtMs) }, 'rewind done');
  }

  async takeBackDamage(): Promise<void> {
    for (let book = this.book(); book?.damage !== undefined; book = this.book()) {
      const { damage, latestBlock, latestIndexedHeight, meta } = book;
      const hasLatest = latestBlock !== undefined || latestIndexedHeight < meta.firstHeight;
      const height = hasLatest ? latestIndexedHeight + 1 : latestIndexedHeight;
      const fields = { height, damage: damage.damage };
      const what = 'a stored height is damaged: it and those above it are fetched again';
      this.dependencies.logger.warn(fields, what);
      await this.rewind(height - 1);
    }
  }

  async forgetAbove(): Promise<void> {
    await this.takeBackDamage();
    await this.rewind(this.latestIndexedHeight());
  }

  /** The plans and open ranges, with the methods of the engine. */
  rangesWith<Own extends Pick<RangeBook, 'change' | 'run'>>(own: Own) {
    return {
      ...own,
      plans: () => this.book()?.plans ?? [],
      open: () => (this.book()?.open ?? []).map((range) => this.#openRange(range)),
      release: (run: RangeStore): void => {
        for (const [from, each] of this.#runs) if (each === run) void this.endRun(from);
      },
    };
  }

  /** Begins a run of an open range. `below`: the covered block below it. */
  beginRun(begun: OpenState, below: BlockHead | undefined, writer: RunWriter): RangeStore {
    const { from, to } = begun;
    /** As the last write left it. */
    let range = begun;
    const state = (): StoreState => stateOfOpen(this.initialised(), range);
    const run: RangeStore & Pick<RunWriter, 'end'> = {
      meta: () => state().meta,
      latestIndexedHeight: () => range.next - 1,
      latestBlock: () => range.latestBlock ?? below,
      blocksAboveWatermark: () => blocksAbove(range),
      hasHeight: (height) => hasHeight(state(), height),
      blockByHeight: (height) =>
        height >= from && height < range.next ? this.durableBlock(height) : this.blockByHeight(height),
      stage: (entry) => writer.stage(entry),
      commit: async (batch) => {
        const { blocks, latestIndexedHeight } = batch;
        const highest = Math.max(latestIndexedHeight, ...blocks.map(({ block }) => block.height));
        assert(highest <= to, `height ${highest} is above the range, which ends at ${to}`);
        const after = openAfter(this.initialised(), range, applyCommit(state(), batch));
        await writer.write(blocks, after);
        range = after;
      },
      end: () => writer.end(),
    };
    this.#runs.set(from, run);
    return run;
  }

  /** The given range may have been read before the last commit of its run. */
  #openRange({ from, to, failures, reason, ...known }: OpenRange): OpenRange {
    const next = (this.#runs.get(from)?.latestIndexedHeight() ?? known.next - 1) + 1;
    return { from, to, next, failures, reason };
  }

  /** Ends the runs of all ranges, and waits for their writes under way. */
  async endRuns(): Promise<void> {
    await Promise.all([...this.#runs.keys()].map((from) => this.endRun(from)));
  }

  /** Waits for the write under way. */
  async endRun(from: number): Promise<void> {
    const run = this.#runs.get(from);
    // At once: another run of the range may begin while this one ends.
    this.#runs.delete(from);
    await run?.end();
  }

  close(): Promise<void> {
    return (this.#closing ??= this.end());
  }

  rewinds(): number {
    return this.removals;
  }

  initialised(): StoreBook {
    const book = this.book();
    assert(book !== undefined, 'the store is not initialised');
    return book;
  }

  coverage(): HeightRanges {
    const book = this.book();
    return book === undefined ? [] : coverageOfBook(book);
  }

  /** Covered heights whose blocks have no proof. */
  unproven(): HeightRanges {
    const { meta, unproven = [] } = this.book() ?? {};
    const coverage = this.coverage();
    if (meta === undefined || meta.schemaVersion < PROOFS_SCHEMA_VERSION) return coverage;
    return coverage.flatMap((range) => within(unproven, range));
  }

  meta(): StoreMeta | undefined {
    return this.book()?.meta;
  }

  /** 0 for a store that was never initialised. */
  latestIndexedHeight(): number {
    return this.book()?.latestIndexedHeight ?? 0;
  }

  latestBlock(): BlockHead | undefined {
    return this.book()?.latestBlock;
  }

  blocksAboveWatermark(): readonly BlockHead[] {
    const book = this.book();
    return book === undefined ? [] : blocksAbove(book);
  }

  hasHeight(height: number): boolean {
    const book = this.book();
    return book !== undefined && hasHeight(book, height);
  }

  healing(): HeightRanges {
    return healingIn(this.book()?.plans ?? [], this.coverage());
  }
}
