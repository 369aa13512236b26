import { ok as assert } from 'node:assert/strict';
import type { FinalizedBlock } from '../../flow/index.js';
import { Listeners, places } from '../../runtime/index.js';
import type { AccountIndex } from '../port/AccountIndex.js';
import type { CheckedHeights, IndexStore, SharedStore } from '../port/IndexStore.js';
import type { RangeChange } from '../port/RangeBook.js';
import type { BlockEntry, CommitBatch, RangeStore } from '../port/RangeStore.js';
import type { BlockHead, CommitteeEvidence, HeightRange, StoreMeta } from '../port/stored.js';
import { proofChecker } from '../records/blocks/assembleBlock.js';
import { sealEvidence } from '../records/blocks/committeeEvidence.js';
import { applyCommit } from '../records/book/applyCommit.js';
import { bothSporks, isWhole, newRange, openAt } from '../records/book/changeBook.js';
import { withOpen, withRangeChange } from '../records/book/changeBook.js';
import { healedBook, type RepairedBook } from '../records/book/repairedBook.js';
import { emptyBook, isCovered, liveRange } from '../records/book/StoreBook.js';
import type { StoreBook, StoreState } from '../records/book/StoreBook.js';
import { BookStore } from '../records/BookStore.js';
import { SCHEMA_VERSION } from '../records/schema.js';
import { RangeLostError, StorageError, unlessDamaged } from '../StorageError.js';
import { databasePlace } from './connection/databasePlace.js';
import { PostgresDatabase } from './connection/PostgresDatabase.js';
import type { Beginning, PostgresDatabaseDependencies } from './connection/PostgresDatabase.js';
import type { Session, WriteSession } from './connection/Session.js';
import { postgresSource } from './reading/postgresReader.js';
import { loadStore, readMark, readSizeBytes, type Loaded, type StoreMark } from './reading/loadStore.js';
import { completeTables } from './tables/completeTables.js';
import { prepareDatabase } from './tables/prepareDatabase.js';
import { deleteBlocks, readBook, readHeads, withUnproven } from './tables/bookRows.js';
import { writeBook, writeRow, writeSporks } from './tables/bookRows.js';
import type { RangeFacts, ReadBook } from './tables/bookRows.js';
import { scriptsSeen } from './tables/scriptsSeen.js';
import { checkStored, repairScripts } from './verify/verifyPostgres.js';
import { blockLine, type BlockLine, type LineParts } from './writing/blockLine.js';
import { addProofs, forgetAbove, lockedBook, moveOf } from './writing/changeRows.js';
import { progressOf, publish } from './writing/changeRows.js';
import { takeFence, type Fence } from './writing/takeFence.js';

/** How often to look for changes of other processes, each time with one small query. */
const LOOK_EVERY_MS = 300;

export interface PostgresIndexStoreOptions extends Beginning {
  readonly url: string;
  /** A store of another chain is refused. */
  readonly chainId: string;
  /**
   * Default false. True: for a command that only reads. It does not see later commits of other processes, and may
   * not lead.
   */
  readonly isReadOnly?: boolean;
  /** Default true. False: a database without a store is refused (`missing`), for commands that only read. */
  readonly create?: boolean;
  /** Default true. False: the account index, which is always kept, is not shown. */
  readonly accounts?: boolean;
  /** How long to wait later for a database that refuses or does not answer. Default: for as long as it takes. */
  readonly patienceMs?: number;
}

/** Runs in the transaction that publishes a range; its error rolls the transaction back. */
type Publishing = (session: Session) => Promise<void>;

/** Work during which no other process changes plans and ranges. */
type RangeWork<T> = (
  transaction: RangeFacts & {
    readonly session: Session;
    readonly write: (change: RangeChange) => Promise<void>;
  },
  tried: T | undefined,
) => Promise<T>;

interface Leading {
  readonly fence: Fence;
  /** New for each term: nothing staged, and no failed write. */
  readonly line: BlockLine;
  /** Aborted when another process leads. */
  readonly replaced: AbortController;
}

/**
 * The IndexStore port on PostgreSQL (docs/postgresql.md), for any number of processes at once: what this process knows of the
 * store without a query, and the range that follows the head, which this or another process writes.
 */
export class PostgresIndexStore extends BookStore implements IndexStore, SharedStore {
  readonly accounts: AccountIndex;
  /** Of a store that several processes fill: each change is based on what the database holds. */
  readonly ranges = this.rangesWith({
    change: async (change: RangeChange) => {
      for (const { from } of change.dropped ?? []) await this.endRun(from);
      await this.#transact((session, book) => writeBook(session, book, withRangeChange(book, change)));
    },
    run: (range: HeightRange, publishing?: Publishing) => this.#run(range, publishing),
    /** The last one is the live range, which may be empty; none: the store was never initialised. */
    coverage: () => (this.#book === undefined ? [] : [...this.#book.published, liveRange(this.#book)]),
    /** Reads what other processes have written. Expected errors: `StorageError`. */
    read: () => this.#refresh(),
    /**
     * Atomic, and durable on return. Retried while the database is unreachable, so `work` may run more than once, even after
     * an attempt that was committed, whose result is `tried`. Expected errors: `StorageError`; those of `work`.
     */
    transact: <T>(work: RangeWork<T>) =>
      this.#transact<T>((session, book, tried) => {
        const write = (change: RangeChange) => writeBook(session, book, withRangeChange(book, change));
        return work({ ...book, session, write }, tried);
      }),
  });
  readonly shared: SharedStore = this;
  readonly #database: PostgresDatabase;
  readonly #changes = new Listeners();
  readonly #options: PostgresIndexStoreOptions;
  readonly #parts: Pick<LineParts, 'database' | 'scriptAt'>;
  readonly #holds: ReturnType<typeof proofChecker>;
  /** What this process knows, and has written, of the store. */
  #book: StoreBook | undefined;
  /** Set while this process leads. */
  #leading: Leading | undefined;
  /** Rewinds and reloads of the book, one after another. */
  readonly #inTurn = places(1);
  /** The mark of the state that is known here. */
  #mark: StoreMark;
  #proven: BlockHead | undefined;
  #completing: ReturnType<typeof completeTables> | undefined;
  readonly #watching: Promise<undefined> | undefined;

  private constructor(
    options: PostgresIndexStoreOptions,
    database: PostgresDatabase,
    loaded: Loaded,
    dependencies: PostgresDatabaseDependencies,
  ) {
    const { accounts = true, isReadOnly = false } = options;
    super(postgresSource(database.patient), dependencies);
    this.#database = database;
    this.#options = options;
    this.#parts = { database, scriptAt: scriptsSeen() };
    this.#holds = proofChecker(options.chainId);
    this.#mark = { epoch: 0, live: '', rest: '', unproven: null, proven: null };
    this.#book = loaded.book;
    this.accounts = {
      ...this.accountsOf(() => {
        if (!accounts) return undefined;
        const meta = this.meta();
        if (meta === undefined) return { from: 0, to: -1, missingHeights: 0 };
        return { from: meta.firstHeight, to: this.latestIndexedHeight(), missingHeights: 0 };
      }),
      // Its entries are written with the blocks.
      extend: () => Promise.resolve(),
    };
    this.#watching = isReadOnly ? undefined : database.watch<never>(() => this.#look(), LOOK_EVERY_MS);
  }

  /**
   * Opens the store of a chain, and creates its tables if there are none. It locks no process out, and may not write the
   * live range before it leads (`shared`).
   *
   * Expected errors: `StorageError` (unavailable, …); `OperatorError`: `foreign` for a store of another chain,
   * `configuration` for a newer schema, a server that is too old, a pooler without sessions and an unusable URL; the reason of
   * `signal`.
   */
  static async open(
    options: PostgresIndexStoreOptions,
    dependencies: PostgresDatabaseDependencies,
  ): Promise<PostgresIndexStore> {
    const { chainId, create = true, isReadOnly = false, patienceMs } = options;
    const { clock, logger } = dependencies;
    const startedAtMs = clock.monotonic();
    const database = new PostgresDatabase(databasePlace(options.url), dependencies, { patienceMs });
    const loaded = await database.begin(async () => {
      await prepareDatabase(database, { chainId, create, isReadOnly });
      return database.snapshot((session) => loadStore(session));
    }, options);
    try {
      const store = new PostgresIndexStore(options, database, loaded, dependencies);
      const facts = {
        store: database.place,
        latestIndexedHeight: loaded.book?.latestBlock?.height,
        blocksAboveWatermark: loaded.book?.above.size ?? 0,
        durationMs: Math.round(clock.monotonic() - startedAtMs),
      };
      logger.info(facts, 'store opened');
      return store;
    } catch (error) {
      await database.close();
      throw error;
    }
  }

  stage(entry: BlockEntry): void {
    this.#leading?.line.stage(entry);
  }

  isLeading(): boolean {
    return this.#leading !== undefined;
  }

  /** This and the methods below: see `SharedStore`. */
  onChanged(callback: () => void): () => void {
    return this.#changes.add(callback);
  }

  async lead(): Promise<AbortSignal> {
    assert(this.#options.isReadOnly !== true, 'the store was opened to be read');
    await this.follow();
    const database = this.#database;
    const fence = await database.write((session) => takeFence(database, session));
    const replaced = new AbortController();
    await this.#inTurn(async () => {
      await this.#database.persist(() => this.#read());
      this.#leading = { fence, line: blockLine({ ...this.#parts, fence }), replaced };
    });
    await this.takeBackDamage();
    this.#changes.tell();
    // A command would end too soon.
    if (this.#options.patienceMs === undefined)
      this.#completing ??= completeTables(this.#options.url, this.dependencies);
    return replaced.signal;
  }

  async follow(): Promise<void> {
    await this.#leading?.line.end();
    this.#leading = undefined;
  }

  /** This and the methods below: see `IndexStore`. */
  async initialise(meta: StoreMeta): Promise<void> {
    assert(this.meta() === undefined, 'the store is initialised already');
    assert(meta.chainId === this.#options.chainId, 'the meta record is of another chain');
    const { createdBy, firstHeight, sporks } = meta;
    await this.#write((line) =>
      line.write(async (session) => {
        await writeRow(session, 'UPDATE flow_store.store SET created_by = $1', createdBy);
        await writeRow(
          session,
          'INSERT INTO flow_store.coverage VALUES ($1, $2)',
          firstHeight,
          firstHeight - 1,
        );
        await writeSporks(session, sporks);
      }),
    );
    this.#book = emptyBook({ ...meta, schemaVersion: SCHEMA_VERSION });
  }

  async commit(batch: CommitBatch): Promise<void> {
    const before = this.initialised();
    await this.#write(async (line) => {
      const next = applyCommit(before, batch);
      const { latestIndexedHeight } = next;
      const move = moveOf(this.#database, before.latestIndexedHeight, latestIndexedHeight);
      await line.commit(batch.blocks, async (session) => {
        await writeSporks(session, batch.sporks ?? []);
        if (latestIndexedHeight > before.latestIndexedHeight) session.later(move);
      });
      // A range that touches the live one may have been published meanwhile.
      this.#book = endingLike(this.initialised(), next);
    });
  }

  removeAbove(height: number): Promise<void> {
    return this.#inTurn(async () => {
      await this.#write((line) => line.write((session) => forgetAbove(session, height)));
      await this.#database.persist(() => this.#read('after our rewind'));
    });
  }

  /** Changes the locked book, then reloads it. */
  async #transact<T>(
    work: (session: WriteSession, book: ReadBook, tried: T | undefined) => Promise<T>,
  ): Promise<T> {
    let tried: T | undefined;
    const result = await this.#database.write(
      async (session) => (tried = await work(session, await lockedBook(session), tried)),
    );
    await this.#database.persist(() => this.#refresh());
    return result;
  }

  /** Expected errors: `RangeTakenError`. Writes of a run that was replaced reject with `RangeLostError`. */
  async #run(range: HeightRange, publishing?: Publishing): Promise<RangeStore> {
    const { from, to } = range;
    await this.endRun(from);
    const { book, fence, found } = await this.#transact(async (session, known) => {
      const isOpen = openAt(known, range) !== undefined;
      if (!isOpen) await writeBook(session, known, withOpen(known, newRange(known, range)));
      const taken = await takeFence(this.#database, session, from);
      // Read again: until here, the previous writer may have gone on.
      const begun = openAt(await readBook(session), range);
      assert(begun !== undefined, 'the range is open');
      return { book: known, fence: taken, found: begun };
    });
    // In a second transaction: another client may have locked these blocks, and the live range waits for changes of ranges.
    const { below, open } = await fence.write(async (session) => {
      const heads = new Map((await readHeads(session, from - 1, to)).map((head) => [head.height, head]));
      const above = new Map([...heads].filter(([height]) => height >= found.next));
      const latestBlock = found.next > from ? heads.get(found.next - 1) : undefined;
      // Rows of other heights are of damaged blocks that came back too late: in a partition that was missing, or from a copy.
      await deleteBlocks(session, found.next, to, [...above.keys()]);
      const head = isCovered(book, from - 1) ? heads.get(from - 1) : undefined;
      return { open: { ...found, above, latestBlock }, below: head };
    });
    const database = this.#database;
    const line = blockLine({ ...this.#parts, fence });
    const isPublished = async (session: Session): Promise<boolean> =>
      (await readBook(session)).coverage.some((each) => each.from <= from && each.to >= to);
    let isEnded = false;
    return this.beginRun(open, below, {
      stage: (entry) => line.stage(entry),
      write: async (blocks, after) => {
        // This process lost the range and took it again: the indexing line of this run may not know yet.
        if (isEnded) throw new RangeLostError(database.place);
        const isLast = isWhole(after);
        const write = async (session: WriteSession): Promise<void> => {
          if (isLast) await publish(session, after);
          else session.later(progressOf(after));
          if (isLast) await publishing?.(session);
        };
        await line.commit(blocks, write, isLast ? isPublished : undefined);
        if (isLast) await database.persist(() => this.#refresh());
      },
      end: () => {
        isEnded = true;
        return line.end();
      },
    });
  }

  /** Why the database does not serve requests; `undefined` while it does. */
  trouble(): string | undefined {
    return this.#database.trouble();
  }

  sizeBytes(): Promise<number> {
    return readSizeBytes(this.#database);
  }

  async addProofs(proven: readonly FinalizedBlock[]): Promise<void> {
    const unproven = await this.#database.write((session) => addProofs(session, proven));
    this.#book = withUnproven(this.initialised(), unproven);
  }

  async heal(damaged: readonly HeightRange[], lastPlan = 0): Promise<readonly HeightRange[]> {
    // An attempt whose answer was lost may have been committed: then the next one finds nothing to do.
    const healed = await this.#transact<RepairedBook | undefined>(async (session, before, tried) => {
      const after = healedBook(before, damaged, lastPlan);
      if (after === undefined) return tried;
      await repairScripts(session, after.holes);
      for (const { from, to } of after.holes) await deleteBlocks(session, from, to);
      await writeBook(session, before, after.book);
      return after;
    });
    if (healed !== undefined) this.#changes.tell();
    return healed?.holes ?? [];
  }

  check(range: HeightRange, signal?: AbortSignal): Promise<CheckedHeights> {
    return checkStored(this.#database.patient, range, { holds: this.#holds, signal });
  }

  provenBlock(): BlockHead | undefined {
    return this.#proven;
  }

  async keepProven(height: number): Promise<void> {
    await this.#asLeader(
      'UPDATE flow_store.proven SET height = greatest(height, $1) WHERE EXISTS (SELECT FROM leader)',
      height,
    );
  }

  async keepEvidence(evidence: CommitteeEvidence): Promise<void> {
    const [, record] = sealEvidence(evidence);
    await this.#asLeader(
      `INSERT INTO flow_store.evidence SELECT $1::bigint, $3::bytea FROM leader
        ON CONFLICT (height) DO UPDATE SET record = excluded.record`,
      evidence.height,
      record,
    );
  }

  /** Runs a statement over `leader`, which has a row while this process leads. */
  async #asLeader(text: string, ...[height, ...more]: readonly [number, ...Buffer[]]): Promise<void> {
    const epoch = this.#leading?.fence.epoch;
    if (epoch === undefined) return;
    const database = this.#database;
    // The lock keeps other processes from taking over, and rewinding, between the comparison and the write.
    const leader = 'WITH leader AS MATERIALIZED (SELECT FROM flow_store.store WHERE epoch = $2 FOR SHARE)';
    const values = [height, epoch, ...more];
    await database.patient.query({ text: `${leader} ${text}`, values });
  }

  /** Finds out what other processes have done to the store. */
  async #look(): Promise<undefined> {
    const known = this.#mark;
    const mark = await readMark(this.#database);
    const leading = this.#leading;
    if (leading !== undefined && mark.epoch > leading.fence.epoch) leading.replaced.abort();
    const isSame = mark.rest === known.rest && (leading !== undefined || mark.live === known.live);
    const isNews = !isSame || mark.proven !== known.proven;
    if (!isSame) await this.#refresh();
    if (this.#book !== undefined) this.#book = withUnproven(this.#book, mark.unproven);
    // A damaged block is fetched again.
    const blockAt = (height: number) => unlessDamaged(() => this.blockByHeight(height));
    if (isNews) this.#proven = mark.proven === null ? undefined : (await blockAt(mark.proven))?.block;
    // What another leader has written is not known before this process has stopped leading.
    this.#mark = leading === undefined ? mark : { ...mark, live: '' };
    if (isNews) this.#changes.tell();
  }

  /** One reload at a time, in order: an older book must not replace a newer one. */
  #refresh(): Promise<void> {
    return this.#inTurn(() => this.#read());
  }

  /** Reloads the book. While this process leads, it knows a newer end of the live range, except after a rewind. */
  async #read(when?: 'after our rewind'): Promise<void> {
    const isEndKnown = this.isLeading() && when === undefined;
    const before = this.latestBlock();
    const { book, isRewound } = await this.#database.snapshot((session) => loadStore(session, before));
    if (isEndKnown) {
      if (this.#book !== undefined && book !== undefined) this.#book = endingLike(book, this.#book);
      return;
    }
    if (isRewound) this.removals += 1;
    if (isRewound && when === undefined) {
      const fields = { had: this.latestIndexedHeight(), latestIndexedHeight: book?.latestIndexedHeight };
      this.dependencies.logger.warn(
        fields,
        'blocks are gone: the store was rewound, or an older copy took its place',
      );
    }
    this.#book = book;
  }

  book(): StoreBook | undefined {
    return this.#book;
  }

  /** Expected errors: those of `write`. */
  async #write(write: (line: BlockLine) => Promise<void>): Promise<void> {
    const leading = this.#leading;
    assert(leading !== undefined, 'this process does not lead');
    try {
      leading.line.assertIdle();
      await write(leading.line);
    } catch (error) {
      if (error instanceof StorageError && error.kind === 'locked') leading.replaced.abort();
      throw error;
    }
  }

  async end(): Promise<void> {
    this.#database.giveUp();
    await this.#leading?.line.end();
    await this.endRuns();
    await Promise.all([this.#database.close(), this.#completing?.close()]);
    await this.#watching;
  }
}

/** A book with the end of the live range of another state, and the sporks of both. */
function endingLike(book: StoreBook, live: StoreState): StoreBook {
  const { above, damage, latestBlock, latestIndexedHeight } = live;
  const sporks = bothSporks(book.meta.sporks, live.meta.sporks);
  return { ...book, above, damage, latestBlock, latestIndexedHeight, meta: { ...book.meta, sporks } };
}
