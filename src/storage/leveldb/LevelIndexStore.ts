import { ok as assert } from 'node:assert/strict';
import type { FinalizedBlock } from '../../flow/index.js';
import type { Clock } from '../../runtime/index.js';
import { LevelAccountIndex } from '../accounts/LevelAccountIndex.js';
import type { AccountIndex } from '../port/AccountIndex.js';
import type { CheckedHeights, IndexStore } from '../port/IndexStore.js';
import type { RangeBook } from '../port/RangeBook.js';
import type { BlockEntry, CommitBatch } from '../port/RangeStore.js';
import type { BlockHead, CommitteeEvidence, HeightRange, StoreMeta } from '../port/stored.js';
import { OPEN_END } from '../records/accountCoverage.js';
import { proofChecker } from '../records/blocks/assembleBlock.js';
import type { Put } from '../records/blocks/BlockEntryWriter.js';
import { sealEvidence } from '../records/blocks/committeeEvidence.js';
import { provenRecord } from '../records/blocks/provenRecord.js';
import { applyCommit } from '../records/book/applyCommit.js';
import { emptyLine, settled, withProofs } from '../records/book/changeBook.js';
import { healedBook, healingIn } from '../records/book/repairedBook.js';
import { putChanges } from '../records/book/bookRecords.js';
import { coverageOfBook, isCovered, unprovenOf } from '../records/book/StoreBook.js';
import type { StoreBook, StoreState } from '../records/book/StoreBook.js';
import { encodeCoverage } from '../records/coding/heightRecords.js';
import { seal } from '../records/coding/seal.js';
import type { Database } from '../records/Database.js';
import { rangesInWords, without } from '../records/heightRanges.js';
import { DelegatingReader } from '../records/reading/DelegatingReader.js';
import type { RecordReader } from '../records/reading/RecordReader.js';
import { blockKey, COVERAGE_KEY, PROOFS_SCHEMA_VERSION, SCHEMA_VERSION } from '../records/schema.js';
import { CoverageNote } from './directory/CoverageNote.js';
import { openDirectory } from './directory/openDirectory.js';
import type { OpenDirectoryDependencies, OpenDirectoryOptions } from './directory/openDirectory.js';
import { loadStore } from './loadStore.js';
import type { LoadedStore } from './loadStore.js';
import { LevelRangeBook } from './ranges/LevelRangeBook.js';
import { checkStored } from './reading/checkHeights.js';
import { levelReader } from './reading/levelReader.js';
import { Removals } from './removal/Removals.js';
import { BookKeeper } from './writing/BookKeeper.js';
import type { Change, Changed } from './writing/ChangeGroup.js';
import { LevelIndexWriter } from './writing/LevelIndexWriter.js';

export interface LevelIndexStoreOptions extends OpenDirectoryOptions {
  /** A store of another chain is refused. */
  readonly chainId: string;
  /**
   * Default false. True: the store opens in spite of a damaged block at or above the watermark, so that a rewind can
   * remove it. Only `rewind` may be called then.
   */
  readonly forRewind?: boolean;
  /** Whether the account index is kept. Default: unchanged, for commands that index nothing. */
  readonly accounts?: boolean;
}

export interface LevelIndexStoreDependencies extends OpenDirectoryDependencies {
  readonly clock: Clock;
}

/**
 * The IndexStore port on LevelDB (docs/architecture.md, "Storage"): one writer, whose watermark moves only after its
 * batch is on disk, and readers beside it.
 */
export class LevelIndexStore extends DelegatingReader implements IndexStore {
  readonly reads: RecordReader;
  readonly #database: Database;
  readonly #writer: LevelIndexWriter;
  readonly #accounts: LevelAccountIndex;
  readonly #keeper: BookKeeper;
  readonly #ranges: LevelRangeBook;
  readonly #removals: Removals;
  #holds: ((block: FinalizedBlock) => boolean) | undefined;
  #note: CoverageNote | undefined;
  #closing: Promise<void> | undefined;

  private constructor(
    database: Database,
    { book, coverage }: LoadedStore,
    { accounts = false }: Pick<LevelIndexStoreOptions, 'accounts'>,
    { logger, clock }: LevelIndexStoreDependencies,
  ) {
    super();
    this.#database = database;
    this.reads = levelReader(database, () => this.coverage());
    this.#writer = new LevelIndexWriter({ clock, database, hasAccounts: () => this.#accounts.isLive() });
    this.#keeper = new BookKeeper(book, {
      database,
      writer: this.#writer,
      onChanged: () => this.#note?.changed(),
    });
    this.#accounts = new LevelAccountIndex(
      { coverage, isWanted: accounts },
      {
        database,
        range: () => {
          const live = this.#live();
          return live && { ...live, firstHeight: live.meta.firstHeight };
        },
        tell: (reading) => this.tell(reading),
        writeBeside: (action) => this.#writer.beside(action),
      },
    );
    const parts = { database, keeper: this.#keeper, writer: this.#writer, accounts: this.#accounts };
    this.#ranges = new LevelRangeBook({ ...parts, reader: this.reads });
    this.#removals = new Removals({ ...parts, logger, clock, endRuns: () => this.#ranges.endRuns() });
  }

  /**
   * Opens the store of a chain and finishes an interrupted rewind.
   *
   * Expected errors: `StorageError` (locked by another process, no permission, damaged, …); `OperatorError`: `foreign`
   * for a store of another chain, `configuration` for a newer schema.
   */
  static async open(
    options: LevelIndexStoreOptions,
    dependencies: LevelIndexStoreDependencies,
  ): Promise<LevelIndexStore> {
    const database = await openDirectory(options, dependencies);
    try {
      const store = await LevelIndexStore.over(database, options, dependencies);
      await store.#keepNote(options.path, dependencies);
      return store;
    } catch (error) {
      await database.close();
      throw error;
    }
  }

  /**
   * Like `open`, over an open database, which is closed with the store. For the simulation, whose database can lose
   * power.
   */
  static async over(
    database: Database,
    options: Pick<LevelIndexStoreOptions, 'path' | 'chainId' | 'forRewind' | 'accounts'>,
    dependencies: LevelIndexStoreDependencies,
  ): Promise<LevelIndexStore> {
    const { path } = options;
    const startedAtMs = dependencies.clock.monotonic();
    const loaded = await loadStore(database, options, dependencies.logger);
    const { book } = loaded;
    dependencies.logger.info(
      {
        path,
        latestIndexedHeight: book?.live.latestBlock?.height,
        blocksAboveWatermark: book?.live.above.size,
        ...(book === undefined || book.published.length + book.open.length === 0
          ? {}
          : { ranges: coverageOfBook(book).length, openRanges: book.open.length }),
        durationMs: dependencies.clock.monotonic() - startedAtMs,
      },
      'store opened',
    );
    return new LevelIndexStore(database, loaded, options, dependencies);
  }

  get accounts(): AccountIndex {
    return this.#accounts;
  }

  get ranges(): RangeBook {
    return this.#ranges;
  }

  coverage(): readonly HeightRange[] {
    const book = this.#keeper.book();
    return book === undefined ? [] : coverageOfBook(book);
  }

  meta(): StoreMeta | undefined {
    return this.#live()?.meta;
  }

  /** 0 for a store that was never initialised. */
  latestIndexedHeight(): number {
    return this.#live()?.latestIndexedHeight ?? 0;
  }

  latestBlock(): BlockHead | undefined {
    return this.#live()?.latestBlock;
  }

  rewinds(): number {
    return this.#removals.rewinds;
  }

  blocksAboveWatermark(): readonly BlockHead[] {
    return [...(this.#live()?.above.values() ?? [])].sort((left, right) => left.height - right.height);
  }

  hasHeight(height: number): boolean {
    const live = this.#live();
    if (live === undefined) return false;
    return (height >= live.meta.firstHeight && height <= live.latestIndexedHeight) || live.above.has(height);
  }

  async initialise(meta: StoreMeta): Promise<void> {
    assert(this.#live() === undefined, 'the store is initialised already');
    assert(meta.schemaVersion === SCHEMA_VERSION, `this program writes schema ${SCHEMA_VERSION}`);
    const hasAccounts = this.#accounts.coverage() !== undefined;
    const coverage = hasAccounts ? [{ from: meta.firstHeight, to: OPEN_END }] : undefined;
    const live = { ...emptyLine(meta.firstHeight), meta };
    const book = settled({ live, hasAccounts, published: [], plans: [], open: [], unproven: [] });
    await this.#writer.alone(async () => {
      using batch = this.#database.batch();
      putChanges(undefined, book, batch);
      if (coverage !== undefined) batch.put(COVERAGE_KEY, seal(COVERAGE_KEY, encodeCoverage(coverage)));
      await batch.write();
    });
    this.#accounts.begin(coverage);
    this.#keeper.replace(book);
  }

  unproven(): readonly HeightRange[] {
    const book = this.#keeper.book();
    return book === undefined ? [] : unprovenOf(book);
  }

  async addProofs(proven: readonly FinalizedBlock[]): Promise<void> {
    await this.#keeper.record('range', async (book) => {
      const records: [Buffer, Buffer][] = [];
      const entries: { readonly block: FinalizedBlock }[] = [];
      for (const block of proven) {
        const key = blockKey(block.height);
        const value = isCovered(book, block.height) ? await this.#database.get(key) : undefined;
        const record = value && provenRecord(value, block);
        if (record === undefined) continue;
        entries.push({ block });
        if (record !== value) records.push([key, record]);
      }
      const putAlso = (put: Put): void => {
        for (const [key, record] of records) put(key, record);
      };
      return { after: withProofs(book, book, entries), putAlso };
    });
  }

  healing(): readonly HeightRange[] {
    return healingIn(this.ranges.plans(), this.coverage());
  }

  async heal(damaged: readonly HeightRange[]): Promise<readonly HeightRange[]> {
    let holes: readonly HeightRange[] = [];
    const change: Change = async (book) => {
      const healed = healedBook(book, damaged);
      if (healed === undefined) return undefined;
      holes = healed.holes;
      const leaving = await this.#accounts.leave(holes);
      const putAlso: Changed['putAlso'] = (put, del) => {
        leaving?.put(put);
        // The run that fills the hole would take a record for a durable block.
        for (const { from, to } of holes)
          for (let height = from; height <= to; height += 1) del(blockKey(height));
      };
      return { after: healed.book, putAlso, onDurable: leaving?.release };
    };
    await this.#withdrawn(() => this.#keeper.record('range', change));
    return holes;
  }

  check(range: HeightRange, signal?: AbortSignal): Promise<CheckedHeights> {
    const { live, unproven } = this.#keeper.initialised();
    const { chainId, firstHeight, schemaVersion, sporks } = live.meta;
    const parts = {
      database: this.#database,
      coverage: () => this.coverage(),
      extent: {
        live: { from: firstHeight, to: live.latestIndexedHeight },
        sporks,
        unproven: schemaVersion < PROOFS_SCHEMA_VERSION ? undefined : unproven,
      },
      accounts: this.#accounts.stored(),
      holds: (this.#holds ??= proofChecker(chainId)),
    };
    return checkStored(range, parts, signal);
  }

  async keepEvidence(evidence: CommitteeEvidence): Promise<void> {
    await this.#writer.beside(async () => {
      using batch = this.#database.batch();
      batch.put(...sealEvidence(evidence));
      await batch.write();
    });
  }

  stage(entry: BlockEntry): void {
    this.#writer.stage(entry);
  }

  async commit(batch: CommitBatch): Promise<void> {
    this.#writer.assertIdle();
    this.#writer.assertSound();
    const before = this.#keeper.initialised();
    const expected = applyCommit(before.live, batch);
    const change = (book: StoreBook) => {
      // The live range may have grown downwards meanwhile: a range that touches it was published.
      const live = book.live === before.live ? expected : applyCommit(book.live, batch);
      return { after: withProofs(book, { ...book, live }, batch.blocks) };
    };
    await this.#keeper.record('live', change, batch.blocks);
  }

  /** Like `IndexStore.rewind`. Logs its progress. Damaged records above the target are removed as well. */
  rewind(height: number): Promise<void> {
    return this.#withdrawn(() => this.#removals.rewind(height));
  }

  /**
   * Removes the account index, even a part that is left of one. A store that is opened with the index later rebuilds it.
   * Returns the number of removed entries; `undefined` when there was no index. Rejects like `rewind`.
   */
  forgetAccounts(): Promise<number | undefined> {
    return this.#removals.forgetAccounts();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Every key and value in key order: equal stores have equal entries. */
  async *entries(): AsyncGenerator<[key: Uint8Array, value: Uint8Array], void, undefined> {
    for await (const page of this.#database.pages({})) yield* page;
  }

  #live(): StoreState | undefined {
    return this.#keeper.book()?.live;
  }

  #withdrawn<T>(action: () => Promise<T>): Promise<T> {
    return this.#note?.withdrawn(action) ?? action();
  }

  async #keepNote(path: string, { clock, logger }: LevelIndexStoreDependencies): Promise<void> {
    const lost = without(await CoverageNote.read(path), this.coverage());
    if (lost.length > 0) {
      logger.warn(
        { path, heights: rangesInWords(lost) },
        'heights that were durable are gone: the write-ahead log of the store was lost, cut or damaged. They are fetched again',
      );
    }
    // Written only with the first change: a command that reads leaves the loss for the daemon to tell.
    this.#note = new CoverageNote({ path, coverage: () => this.coverage() }, { clock });
  }

  async #close(): Promise<void> {
    await this.#accounts.hold();
    await this.#writer.end();
    await this.#note?.end();
    await this.#database.close();
  }
}
