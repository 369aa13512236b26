import { ok as assert } from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { Logger } from '../../observability/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { RecordReader } from '../records/RecordReader.js';
import { OPEN_END } from '../records/accountCoverage.js';
import { forgetAccounts } from '../accounts/forgetAccounts.js';
import { LevelAccountIndex } from '../accounts/LevelAccountIndex.js';
import { DelegatingReader } from '../records/DelegatingReader.js';
import type { Database } from '../records/Database.js';
import { droppedAtOpen, holdsData, prepareDirectory, refuseDamagedFiles } from './storeDirectory.js';
import type {
  AccountIndex,
  BlockEntry,
  BlockHead,
  CommitBatch,
  HeightRange,
  IndexStore,
  RangeBook,
  StoreMeta,
} from '../IndexStore.js';
import { levelReader } from './levelReader.js';
import { LevelIndexWriter } from './LevelIndexWriter.js';
import { defaultTuning, openLevelDatabase } from './LevelDatabase.js';
import type { LevelTuning, OpenDatabase } from './LevelDatabase.js';
import { loadBook, loadStore } from './openStore.js';
import type { LoadedStore } from './openStore.js';
import { encodeCoverage } from '../records/codecs.js';
import { rangesInWords, without } from '../records/heightRanges.js';
import { beginRewind, finishRewind } from './rewind.js';
import { COVERAGE_KEY, Prefix, prefixRange, SCHEMA_VERSION, seal } from '../records/schema.js';
import { coverageOf, coverageOfBook } from '../records/storeState.js';
import type { StoreBook, StoreState } from '../records/storeState.js';
import { BookKeeper } from './BookKeeper.js';
import { durableHeights, emptyLine, putChanges, rewoundBook, settled, withoutEntries } from './changeBook.js';
import { LevelRangeBook } from './LevelRangeBook.js';
import { stateAfter } from '../records/applyCommit.js';

export interface LevelIndexStoreOptions {
  /** A directory of the store's own, created for its owner alone when it does not exist. */
  readonly path: string;
  /** A store of another chain is refused. */
  readonly chainId: string;
  /** Default true. False: a path without a store is refused (`missing`), for commands that only read. */
  readonly create?: boolean;
  /**
   * Default false. True: a damaged block at or above the watermark does not keep the store from opening, so that it can
   * be rewound away. Only `rewind` may be called then.
   */
  readonly forRewind?: boolean;
  /** Default false. True: readers on other threads may open it beside this one (`LevelReplica`); they close it first. */
  readonly isShared?: boolean;
  /** Whether the account index is kept. Default: unchanged, for commands that index nothing. */
  readonly accounts?: boolean;
  /** Overrides of the measured defaults. */
  readonly tuning?: Partial<LevelTuning>;
}

export interface LevelIndexStoreDependencies {
  readonly logger: Logger;
  readonly clock: Clock;
  /** How the database is opened. Default: LevelDB. */
  readonly openDatabase?: OpenDatabase;
}

/**
 * The IndexStore port on LevelDB (docs/architecture.md, "Storage"): one writer, whose watermark moves only after its
 * batch is on disk, and readers beside it.
 */
export class LevelIndexStore extends DelegatingReader implements IndexStore {
  readonly reads: RecordReader;
  readonly #database: Database;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #writer: LevelIndexWriter;
  readonly #accounts: LevelAccountIndex;
  readonly #keeper: BookKeeper;
  readonly #ranges: LevelRangeBook;
  #closing: Promise<void> | undefined;

  private constructor(
    database: Database,
    { book, coverage }: LoadedStore,
    { accounts = false }: Pick<LevelIndexStoreOptions, 'accounts'>,
    { logger, clock }: LevelIndexStoreDependencies,
  ) {
    super();
    this.#database = database;
    this.#logger = logger;
    this.#clock = clock;
    this.reads = levelReader(database, () => this.coverage());
    this.#writer = new LevelIndexWriter({ clock, database, hasAccounts: () => this.#accounts.isLive() });
    this.#keeper = new BookKeeper(book, { database, writer: this.#writer });
    this.#accounts = new LevelAccountIndex(
      { coverage, isWanted: accounts },
      {
        database,
        range: () => {
          const live = this.#live();
          return live && { ...live, firstHeight: live.meta.firstHeight };
        },
        writeBeside: (action) => this.#writer.beside(action),
      },
    );
    const lines = {
      keeper: this.#keeper,
      writer: this.#writer,
      reader: this.reads,
      accounts: this.#accounts,
    };
    this.#ranges = new LevelRangeBook({ database, ...lines });
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
    const { path, create = true, isShared = false } = options;
    const { openDatabase = openLevelDatabase } = dependencies;
    await prepareDirectory(path, create);
    if (await holdsData(path)) await refuseDamagedFiles(path);
    const database = await openDatabase(path, { ...defaultTuning, ...options.tuning }, { create, isShared });
    try {
      const dropped = await droppedAtOpen(path);
      if (dropped.length > 0) {
        dependencies.logger.warn(
          { path, details: dropped },
          'the end of the write-ahead log was torn and has been dropped',
        );
      }
      return await LevelIndexStore.over(database, options, dependencies);
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
    const book = settled({ ...{ live, hasAccounts }, published: [], plans: [], open: [] });
    await this.#writer.alone(() => {
      const batch = this.#database.batch();
      putChanges(undefined, book, batch);
      if (coverage !== undefined) batch.put(COVERAGE_KEY, seal(COVERAGE_KEY, encodeCoverage(coverage)));
      return batch.write();
    });
    this.#accounts.release(coverage);
    this.#keeper.replace(book);
  }

  stage(entry: BlockEntry): void {
    this.#writer.stage(entry);
  }

  async commit(batch: CommitBatch): Promise<void> {
    this.#writer.assertIdle();
    this.#writer.assertSound();
    const before = this.#keeper.initialised();
    const expected = stateAfter(before.live, batch);
    const change = (book: StoreBook) => {
      // A range may have been published meanwhile that reaches up to this one.
      const live = book.live === before.live ? expected : stateAfter(book.live, batch);
      return { after: { ...book, live } };
    };
    await this.#keeper.record('live', change, batch.blocks);
  }

  /** Like `IndexStore.rewind`. Logs its progress. Damaged records above the target are removed as well. */
  async rewind(height: number): Promise<void> {
    this.#writer.assertIdle();
    const { live } = this.#keeper.initialised();
    const rewound = this.#rewound(height);
    if (Math.max(live.latestIndexedHeight, ...live.above.keys()) <= height && !live.damaged) return;
    if (rewound.after.live.meta.firstHeight !== live.meta.firstHeight) this.#ranges.endRuns();
    const startedAtMs = this.#clock.monotonic();
    const lastStep = this.#accounts.hold();
    if (lastStep !== undefined) await lastStep;
    this.#writer.discardStaged();
    await this.#writer.alone(async () => {
      await this.#forgetAbove(height);
    });
    this.#logger.info({ height, durationMs: this.#clock.monotonic() - startedAtMs }, 'rewind done');
  }

  /**
   * Removes the account index, whether it is on or was; a store opened with it later rebuilds it. Returns the number of
   * entries removed; `undefined` when there was no index. Rejects like `rewind`.
   */
  async forgetAccounts(): Promise<number | undefined> {
    this.#writer.assertIdle();
    if (!this.#keeper.initialised().hasAccounts) return undefined;
    await this.#accounts.hold();
    this.#writer.discardStaged();
    await this.#keeper.record('live', (book) => ({
      after: { ...book, open: book.open.map(withoutEntries) },
    }));
    let forgotten = 0;
    await this.#writer.alone(async () => {
      const { live, ...book } = this.#keeper.initialised();
      const { entries, meta } = await forgetAccounts(this.#database, live.meta);
      await this.#database.compact(prefixRange(Prefix.account));
      this.#keeper.replace({ ...book, hasAccounts: false, live: { ...live, meta } });
      forgotten = entries;
    });
    this.#accounts.release(undefined);
    return forgotten;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Every key and value in key order: equal stores have equal entries. */
  async *entries(): AsyncGenerator<[key: Uint8Array, value: Uint8Array], void, undefined> {
    for await (const page of this.#database.pages({})) yield* page;
  }

  /** SHA-256 over all keys and values in order, each preceded by its length: equal for equal stores. Hex. */
  async digest(): Promise<string> {
    const hash = createHash('sha256');
    const lengths = Buffer.alloc(8);
    for await (const [key, value] of this.entries()) {
      lengths.writeUInt32BE(key.length, 0);
      lengths.writeUInt32BE(value.length, 4);
      hash.update(lengths).update(key).update(value);
    }
    return hash.digest('hex');
  }

  #live(): StoreState | undefined {
    return this.#keeper.book()?.live;
  }

  /** Expected errors: `OperatorError` (`usage`). */
  #rewound(height: number): NonNullable<ReturnType<typeof rewoundBook>> {
    const book = this.#keeper.initialised();
    const rewound = Number.isSafeInteger(height) ? rewoundBook(book, height) : undefined;
    if (rewound === undefined) throw new OperatorError('usage', refusalOf(book, height));
    return rewound;
  }

  async #forgetAbove(height: number): Promise<void> {
    const before = this.#keeper.initialised();
    const { live } = before;
    const { after, target } = this.#rewound(height);
    const { latestIndexedHeight: watermarkBefore, damaged: sweep } = live;
    const remaining = Math.max(watermarkBefore, ...live.above.keys());
    const isWithinLive = after.live.meta.firstHeight === live.meta.firstHeight;
    const covered = isWithinLive ? undefined : without(durableHeights(before), [{ from: 0, to: target }]);
    const intent = { target, remaining, watermarkBefore, sweep, covered };
    await beginRewind(this.#database, { before, after }, intent);
    this.#logger.info({ height, from: remaining }, 'rewind begins');
    const coverage = await coverageOf(this.#database, live.meta);
    await finishRewind(this.#database, intent, { logger: this.#logger, coverage });
    const book = await loadBook(this.#database, after.live.meta, false);
    this.#keeper.replace(book);
    this.#accounts.release(await coverageOf(this.#database, book.live.meta));
  }

  async #close(): Promise<void> {
    await this.#accounts.hold();
    await this.#writer.end();
    await this.#database.close();
  }
}

function refusalOf(book: StoreBook, height: number): string {
  const { firstHeight } = book.live.meta;
  const ranges = coverageOfBook(book);
  if (book.published.length > 0) {
    return (
      `Cannot rewind to height ${height}: this store holds heights ${rangesInWords(ranges)}, and nothing at or below ` +
      `${height}. Name a height in one of them.`
    );
  }
  return (
    `Cannot rewind to height ${height}: this store begins at height ${firstHeight}. ` +
    `The lowest height to rewind to is ${firstHeight - 1}, which forgets every block.`
  );
}
