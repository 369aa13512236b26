import { ok as assert } from 'node:assert/strict';
import type { FinalizedBlock } from '../../flow/index.js';
import type { Logger } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import type { AccountIndex } from '../port/AccountIndex.js';
import type { CheckedHeights, IndexStore } from '../port/IndexStore.js';
import type { RangeChange } from '../port/RangeBook.js';
import type { BlockEntry, CommitBatch, RangeStore } from '../port/RangeStore.js';
import type { BlockHead, CommitteeEvidence, HeightRange, StoreMeta } from '../port/stored.js';
import { isLive, OPEN_END } from '../records/accountCoverage.js';
import { proofChecker } from '../records/blocks/assembleBlock.js';
import { sealEvidence } from '../records/blocks/committeeEvidence.js';
import { headOf, provenRecord, readHead } from '../records/blocks/readBlocks.js';
import { applyCommit } from '../records/book/applyCommit.js';
import { putChanges, loadBook, readOne, single } from '../records/book/bookRecords.js';
import { isWhole, newRange, openAt, settled, withOpen } from '../records/book/changeBook.js';
import { withProofs, withPublished, withRangeChange } from '../records/book/changeBook.js';
import { healedBook } from '../records/book/repairedBook.js';
import { coverageOfBook, emptyBook, isCovered } from '../records/book/StoreBook.js';
import type { StoreBook } from '../records/book/StoreBook.js';
import type { Database, Entry } from '../records/Database.js';
import { heightsIn, rangesInWords, without } from '../records/heightRanges.js';
import { BookStore } from '../records/BookStore.js';
import { blockKey, SCHEMA_VERSION } from '../records/schema.js';
import { coverageNote, readCoverageNote } from './directory/coverageNote.js';
import { levelDatabase, type OpenDatabase } from './directory/levelDatabase.js';
import type { OpenOptions } from './directory/openLevel.js';
import { droppedAtOpen, holdsData, prepareDirectory } from './directory/storeDirectory.js';
import { accountCoverageOf, extendAccounts, forgetAccounts, switched } from './accountIndex.js';
import { checkStored } from './reading/checkHeights.js';
import { levelSource } from './reading/levelReader.js';
import { finishInterrupted, removeRange, rewindStore } from './removal/rewind.js';
import { bookWriter, type BookWriter, type Change } from './writing/bookWriter.js';
import { checkMeta } from '../records/book/checkMeta.js';
import { StorageError, unlessDamaged } from '../StorageError.js';

/** `path`: the store's own directory; created, readable by its owner only, when it does not exist. */
export interface LevelIndexStoreOptions
  extends LoadOptions, Pick<OpenOptions, 'isShared' | 'tuning' | 'descriptors'> {
  /** Default true. False: a path without a store is refused (`missing`), for commands that only read. */
  readonly create?: boolean;
}

export interface LevelIndexStoreDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  /** How the database is opened. Default: LevelDB. */
  readonly openDatabase?: OpenDatabase;
}

/**
 * The IndexStore port on LevelDB (docs/architecture.md, "Storage"): one writer, whose watermark moves only after its
 * batch is on disk, and readers beside it.
 */
export class LevelIndexStore extends BookStore implements IndexStore {
  readonly #database: Database;
  readonly #queue: BookWriter;
  readonly accounts: AccountIndex = {
    ...this.accountsOf(() => accountCoverageOf(this.book(), this.#wantsAccounts)),
    extend: () => this.reporting(() => extendAccounts(this.#queue)),
  };
  readonly ranges = this.rangesWith({
    change: (change: RangeChange) => this.#changeRanges(change),
    run: (range: HeightRange) => this.#run(range),
  });
  /** A store without blocks gets the account index with its first block. */
  readonly #wantsAccounts: boolean;
  #holds: ((block: FinalizedBlock) => boolean) | undefined;
  #note: ReturnType<typeof coverageNote> | undefined;
  #onFailed: (error: unknown) => void = () => undefined;

  private constructor(
    database: Database,
    book: StoreBook | undefined,
    wantsAccounts: boolean,
    dependencies: LevelIndexStoreDependencies,
  ) {
    super(levelSource(database), dependencies);
    this.#database = database;
    this.#queue = bookWriter(book, {
      clock: dependencies.clock,
      database,
      onChanged: () => this.#note?.changed(),
      onFailed: (error) => this.#onFailed(error),
    });
    this.#wantsAccounts = wantsAccounts;
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
    const { path, create = true } = options;
    const { logger, openDatabase = levelDatabase } = dependencies;
    await prepareDirectory(path, create);
    // Without its CURRENT file a store would be taken for a new one, and its tables would be deleted.
    const isNew = create && !(await holdsData(path));
    const database = await openDatabase(path, { ...options, create: isNew });
    try {
      const details = await droppedAtOpen(path);
      const what = 'the write-ahead log was damaged: what could not be read has been dropped';
      if (details.length > 0) logger.warn({ path, details }, what);
      const store = await LevelIndexStore.over(database, options, dependencies);
      await store.#keepNote(path);
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
    options: LoadOptions,
    dependencies: LevelIndexStoreDependencies,
  ): Promise<LevelIndexStore> {
    const { accounts, path } = options;
    const { clock, logger } = dependencies;
    const startedAtMs = clock.monotonic();
    const book = await loadStore(database, options, logger);
    const facts = {
      path,
      latestIndexedHeight: book?.latestBlock?.height,
      blocksAboveWatermark: book?.above.size,
      ...(book === undefined || book.published.length + book.open.length === 0
        ? {}
        : { ranges: coverageOfBook(book).length, openRanges: book.open.length }),
      durationMs: Math.round(clock.monotonic() - startedAtMs),
    };
    logger.info(facts, 'store opened');
    const store = new LevelIndexStore(database, book, accounts === true, dependencies);
    if (book !== undefined) await store.#settle(accounts);
    await store.#finishRemovals();
    return store;
  }

  async initialise(meta: StoreMeta): Promise<void> {
    assert(this.book() === undefined, 'the store is initialised already');
    assert(meta.schemaVersion === SCHEMA_VERSION, `this program writes schema ${SCHEMA_VERSION}`);
    const hasAccounts = this.accounts.coverage() !== undefined;
    const accounts = hasAccounts ? [{ from: meta.firstHeight, to: OPEN_END }] : undefined;
    const book = settled({ ...emptyBook(meta), accounts });
    await this.#queue.alone(async () => {
      using batch = this.#database.batch();
      putChanges(undefined, book, batch);
      await batch.write();
    });
    this.#queue.replace(book);
  }

  async addProofs(proven: readonly FinalizedBlock[]): Promise<void> {
    await this.#queue.record('range', async (book) => {
      const put: Entry[] = [];
      const entries: { readonly block: FinalizedBlock }[] = [];
      for (const block of proven) {
        const key = blockKey(block.height);
        const value = isCovered(book, block.height) ? await this.#database.get(key) : undefined;
        const record = value && provenRecord(value, block);
        if (record === undefined) continue;
        entries.push({ block });
        if (record !== value) put.push([key, record]);
      }
      return { after: withProofs(book, book, entries), put };
    });
  }

  async heal(damaged: readonly HeightRange[]): Promise<readonly HeightRange[]> {
    let holes: readonly HeightRange[] = [];
    const change: Change = (book) => {
      const healed = healedBook(book, damaged);
      if (healed === undefined) return undefined;
      holes = healed.holes;
      // The run that fills the hole would take a remaining record for a durable block.
      return { after: healed.book, del: [...heightsIn(holes)].map(blockKey) };
    };
    await this.#withdrawn(() => this.#queue.record('range', change));
    return holes;
  }

  check(range: HeightRange, signal?: AbortSignal): Promise<CheckedHeights> {
    const holds = (this.#holds ??= proofChecker(this.#queue.initialised().meta.chainId));
    const records = { bookOf: () => this.#queue.initialised(), database: this.#database };
    return checkStored(records, range, { holds, signal });
  }

  async sizeBytes(signal: AbortSignal): Promise<number | undefined> {
    return this.#database.sizeBytes?.(signal);
  }

  onFailed(callback: (error: unknown) => void): void {
    this.#onFailed = callback;
  }

  async keepEvidence(evidence: CommitteeEvidence): Promise<void> {
    const put = [sealEvidence(evidence)];
    await this.#queue.record('range', (after) => ({ after, put }));
  }

  stage(entry: BlockEntry): void {
    this.#queue.stage(entry);
  }

  async commit(batch: CommitBatch): Promise<void> {
    const { blocks } = batch;
    const change: Change = (book) => ({ after: withProofs(book, applyCommit(book, batch), blocks) });
    await this.#queue.record('live', change, blocks);
  }

  async #changeRanges(change: RangeChange): Promise<void> {
    const { dropped = [] } = change;
    for (const { from } of dropped) await this.endRun(from);
    await this.#queue.record('range', (book) => {
      const after = withRangeChange(book, change);
      return after === book ? undefined : { after };
    });
    for (const range of dropped) await removeRange(range, this.#queue, this.dependencies.logger);
  }

  async #run(range: HeightRange): Promise<RangeStore> {
    const queue = this.#queue;
    await this.endRun(range.from);
    await queue.record('range', (book) => {
      const open = openAt(book, range);
      assert(open?.keep === undefined, 'blocks of this range are being removed');
      return open === undefined ? { after: settled(withOpen(book, newRange(book, range))) } : undefined;
    });
    // A damaged block becomes a hole.
    const below = await unlessDamaged(() => this.blockByHeight(range.from - 1));
    const open = openAt(this.initialised(), range);
    assert(open !== undefined, 'the range is open');
    let isEnded = false;
    return this.beginRun(open, below && headOf(below), {
      // Nothing is prepared in advance: history can wait.
      stage: () => undefined,
      write: (blocks, written) => {
        const headAt = async (height: number): Promise<BlockHead> =>
          blocks.find(({ block }) => block.height === height)?.block ?? readHead(this.#database, height);
        const change: Change = async (book) => {
          assert(openAt(book, range) !== undefined && !isEnded, 'the run of this range is over');
          const after = isWhole(written)
            ? await withPublished(book, written, headAt)
            : withOpen(book, written);
          return { after: withProofs(book, after, blocks) };
        };
        return queue.record('range', change, blocks);
      },
      end: () => {
        isEnded = true;
        return Promise.resolve();
      },
    });
  }

  /** Settles the book, and switches the account index on or off if wanted. Runs before any commit. */
  async #settle(accounts?: boolean): Promise<void> {
    await this.#queue.record('range', (book) => {
      const isSwitched = accounts !== undefined && accounts !== isLive(book.accounts);
      const after = settled(isSwitched ? switched(book, accounts) : book);
      return after === book ? undefined : { after };
    });
  }

  /** Finishes removals that an earlier process began. Expected errors: `StorageError`. */
  async #finishRemovals(): Promise<void> {
    const { logger } = this.dependencies;
    for (const range of this.book()?.open ?? []) {
      const { from, to, keep } = range;
      if (keep !== undefined) logger.info({ from, to }, 'finishing the removal of a range');
      await removeRange(range, this.#queue, logger);
    }
  }

  removeAbove(height: number, onStep?: (highest: number) => void): Promise<void> {
    return this.#withdrawn(async () => {
      const queue = this.#queue;
      queue.discardStaged();
      await queue.alone(async () => {
        const before = this.latestIndexedHeight();
        await rewindStore(queue, height, { ...this.dependencies, onStep });
        if (before > this.latestIndexedHeight()) this.removals += 1;
      });
      await this.#settle();
    });
  }

  /**
   * Removes the account index, or what is left of one. A store that is opened with the index later rebuilds it.
   * Returns the number of removed entries; `undefined` when there was no index. Rejects like `rewind`.
   */
  async forgetAccounts(): Promise<number | undefined> {
    return this.initialised().accounts && (await forgetAccounts(this.#queue));
  }

  /** Every key and value in key order: equal stores have equal entries. */
  async *entries(): AsyncGenerator<[key: Uint8Array, value: Uint8Array], void, undefined> {
    for await (const page of this.#database.pages({})) yield* page;
  }

  book(): StoreBook | undefined {
    return this.#queue.book();
  }

  #withdrawn<T>(action: () => Promise<T>): Promise<T> {
    return this.#note?.withdrawn(action) ?? action();
  }

  async #keepNote(path: string): Promise<void> {
    const { clock, logger } = this.dependencies;
    const lost = without(await readCoverageNote(path), this.coverage());
    if (lost.length > 0) {
      logger.warn(
        { path, heights: rangesInWords(lost) },
        'heights that were durable are gone: the write-ahead log of the store was lost, cut or damaged. They are fetched again',
      );
    }
    // Written only with the first change: a command that only reads leaves the loss for the daemon to report.
    this.#note = coverageNote({ path, coverage: () => this.coverage() }, { clock });
  }

  async end(): Promise<void> {
    await this.#queue.end();
    await this.#note?.end();
    await this.#database.close();
  }
}

export interface LoadOptions {
  readonly path: string;
  /** A store of another chain is refused. */
  readonly chainId: string;
  /** Whether the account index is kept. Default: unchanged, for commands that index nothing. */
  readonly accounts?: boolean;
}

/**
 * Checks that this program may use the store, and reads its records. Finishes an interrupted rewind. Expected errors:
 * `StorageError`; `OperatorError` (`foreign`, `configuration`).
 */
async function loadStore(
  database: Database,
  where: LoadOptions,
  logger: Logger,
): Promise<StoreBook | undefined> {
  const meta = await readOne(database, single.meta);
  if (meta === undefined) {
    await checkEmpty(database, where.path);
    return undefined;
  }
  checkMeta(meta, where);
  await finishInterrupted(database, meta, logger);
  return loadBook(database, meta, logger);
}

/** A database with entries but no meta record is not ours. Expected errors: `StorageError`. */
async function checkEmpty(database: Database, path: string): Promise<void> {
  const [entry] = await database.first({}, 1);
  if (entry === undefined) return;
  throw new StorageError(
    'not_a_store',
    `${path} holds a LevelDB database without our meta record: it belongs to another program, or its meta record is ` +
      'lost. Choose another directory, or restore this one from a copy.',
  );
}
