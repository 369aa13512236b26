import { ok as assert } from 'node:assert/strict';
import type { Identifier } from '../../flow/index.js';
import type { Logger } from '../../observability/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type {
  AccountCoverage,
  AccountIndex,
  BackfillPlan,
  BlockEntry,
  BlockHead,
  CollectionPlace,
  CommitBatch,
  HeightRange,
  IndexStore,
  OpenRange,
  RangeBook,
  SporkRecord,
  StoredBlock,
  StoredCollection,
  StoredTransaction,
  StoreMeta,
  TransactionPlace,
} from '../IndexStore.js';
import { headOf } from '../records/readRecords.js';
import { SCHEMA_VERSION } from '../records/schema.js';
import { rangesInWords, upTo } from '../records/heightRanges.js';
import { corruptRecord, isCorruption } from '../StorageError.js';
import { BlockLine, deleteBlocks } from './BlockLine.js';
import { databasePlace } from './connection.js';
import { Fence } from './Fence.js';
import { prepareDatabase } from './openDatabase.js';
import { Partitions } from './Partitions.js';
import { PostgresDatabase } from './PostgresDatabase.js';
import type { Session } from './PostgresDatabase.js';
import { PostgresIndexReader } from './PostgresIndexReader.js';
import { PostgresRangeBook } from './PostgresRangeBook.js';
import { withHoles } from './publish.js';
import type { Published } from './publish.js';
import {
  readCoverage,
  readHeads,
  readOpenRanges,
  readPlans,
  readSporks,
  writePlans,
  writeSporks,
} from './readState.js';
import { Scripts } from './Scripts.js';
import { WriterLock } from './WriterLock.js';

export interface PostgresIndexStoreOptions {
  readonly url: string;
  /** A store of another chain is refused. */
  readonly chainId: string;
  /** Default true. False: a database without a store is refused (`missing`), for commands that only read. */
  readonly create?: boolean;
  /** Default false. True: no other writer is kept out or replaced, and nothing may be written. */
  readonly isReadOnly?: boolean;
  /** As `LevelIndexStoreOptions.forRewind`. */
  readonly forRewind?: boolean;
  /** Default true. False: the account index, which is always kept, is not shown. */
  readonly accounts?: boolean;
  /** How long a database is waited for that does not answer. Default: not at all. */
  readonly waitMs?: number;
}

export interface PostgresIndexStoreDependencies {
  readonly logger: Logger;
  readonly clock: Clock;
}

/** The rows that say what the store holds. */
interface Loaded {
  readonly coverage: readonly HeightRange[];
  readonly sporks: readonly SporkRecord[];
  readonly open: readonly OpenRange[];
  readonly plans: readonly BackfillPlan[];
  readonly latestBlock: BlockHead | undefined;
  readonly above: ReadonlyMap<number, BlockHead>;
  /** The block at the watermark is unreadable; tolerated only in order to rewind it away. */
  readonly isDamaged: boolean;
}

/** The IndexStore port on PostgreSQL (docs/postgresql.md). */
export class PostgresIndexStore implements IndexStore {
  readonly accounts: AccountIndex;
  readonly #chainId: string;
  readonly #database: PostgresDatabase;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #lock: WriterLock;
  readonly #fence: Fence | undefined;
  readonly #reader: PostgresIndexReader;
  readonly #book: PostgresRangeBook;
  readonly #scripts = new Scripts();
  readonly #partitions: Partitions;
  #createdBy: string;
  /** Below the live range, ascending. */
  #published: readonly HeightRange[] = [];
  #firstHeight = 0;
  #sporks: readonly SporkRecord[] = [];
  #isDamaged = false;
  /** `undefined` for a store that was never initialised. */
  #line: BlockLine | undefined;
  #closing: Promise<void> | undefined;
  /** Whether the database is there; only while it may be written. */
  readonly #watching: Promise<void> | undefined;
  /** Publications, one after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(
    { chainId, accounts = true }: PostgresIndexStoreOptions,
    {
      database,
      lock,
      fence,
      loaded,
      createdBy,
      logger,
      clock,
    }: PostgresIndexStoreDependencies & {
      readonly database: PostgresDatabase;
      readonly lock: WriterLock;
      readonly fence: Fence | undefined;
      readonly loaded: Loaded;
      readonly createdBy: string;
    },
  ) {
    this.#chainId = chainId;
    this.#database = database;
    this.#lock = lock;
    this.#fence = fence;
    this.#createdBy = createdBy;
    this.#logger = logger;
    this.#clock = clock;
    this.#partitions = new Partitions({ database });
    this.#reader = this.#readerOf(() => this.coverage());
    this.accounts = {
      coverage: () => (accounts ? this.#accountCoverage() : undefined),
      page: (query) => this.#reader.accountPage(query, this.accounts.coverage()),
      // Its entries are written with the blocks.
      extend: () => Promise.resolve(),
    };
    this.#book = new PostgresRangeBook(loaded, {
      ...{ database, partitions: this.#partitions, scripts: this.#scripts },
      storeMeta: () => this.#initialised(),
      coverage: () => this.coverage(),
      readerOf: (coverage) => this.#readerOf(coverage),
      inTurn: (action) => this.#inTurn(action),
      onPublished: (published) => this.#onPublished(published),
    });
    this.#load(loaded);
    this.#watching = fence && database.watch(() => lock.check());
  }

  /**
   * Opens the store of a chain, makes its tables where there are none, and replaces the writer before.
   *
   * Expected errors: `StorageError` (unavailable, locked by another daemon, …); `OperatorError`: `foreign` for a store of
   * another chain, `configuration` for a newer schema, a server that is too old, and a URL that cannot be used.
   */
  static async open(
    options: PostgresIndexStoreOptions,
    dependencies: PostgresIndexStoreDependencies,
  ): Promise<PostgresIndexStore> {
    const { chainId, create = true, forRewind = false, isReadOnly = false, waitMs = 0 } = options;
    const { clock, logger } = dependencies;
    const startedAtMs = clock.monotonic();
    const database = new PostgresDatabase(databasePlace(options.url), dependencies);
    const lock = new WriterLock({ database });
    try {
      const row = await database.persist(
        () => prepareDatabase(database, { chainId, create }),
        startedAtMs + waitMs,
      );
      let fence: Fence | undefined;
      if (!isReadOnly) {
        await lock.take();
        fence = await database.transaction((session) => Fence.take(database, session, { table: 'store' }));
      }
      const loaded = await load(database, forRewind);
      const store = new PostgresIndexStore(options, {
        ...{ database, lock, fence, loaded, clock, logger, createdBy: row.created_by },
      });
      const facts = {
        store: database.place,
        latestIndexedHeight: loaded.latestBlock?.height,
        blocksAboveWatermark: loaded.above.size,
        durationMs: clock.monotonic() - startedAtMs,
      };
      logger.info(facts, 'store opened');
      return store;
    } catch (error) {
      lock.release();
      await database.close();
      throw error;
    }
  }

  get ranges(): RangeBook {
    return this.#book;
  }

  /** What keeps the database from answering now; `undefined` while nothing does. */
  trouble(): string | undefined {
    return this.#database.trouble()?.message;
  }

  coverage(): readonly HeightRange[] {
    const to = this.latestIndexedHeight();
    if (this.#line === undefined || to < this.#firstHeight) return this.#published;
    return [...this.#published, { from: this.#firstHeight, to }];
  }

  meta(): StoreMeta | undefined {
    if (this.#line === undefined) return undefined;
    return {
      schemaVersion: SCHEMA_VERSION,
      chainId: this.#chainId,
      firstHeight: this.#firstHeight,
      createdBy: this.#createdBy,
      sporks: this.#sporks,
    };
  }

  /** 0 for a store that was never initialised. */
  latestIndexedHeight(): number {
    return this.#line?.state.latestIndexedHeight ?? 0;
  }

  latestBlock(): BlockHead | undefined {
    return this.#line?.state.latestBlock;
  }

  blocksAboveWatermark(): readonly BlockHead[] {
    return this.#line?.blocksAboveWatermark() ?? [];
  }

  hasHeight(height: number): boolean {
    return this.#line?.hasHeight(height) === true;
  }

  async initialise(meta: StoreMeta): Promise<void> {
    assert(this.#line === undefined, 'the store is initialised already');
    assert(meta.chainId === this.#chainId, 'a store is of one chain');
    const latestIndexedHeight = meta.firstHeight - 1;
    await this.#writable().write(async (session) => {
      await session.query({ text: 'UPDATE flow_store.store SET created_by = $1', values: [meta.createdBy] });
      await session.query({
        text: 'INSERT INTO flow_store.coverage VALUES ($1, $2)',
        values: [meta.firstHeight, latestIndexedHeight],
      });
      await writeSporks(session, meta.sporks);
    });
    this.#createdBy = meta.createdBy;
    this.#load({
      ...{ coverage: [{ from: meta.firstHeight, to: latestIndexedHeight }], sporks: meta.sporks },
      ...{ open: [], plans: [], latestBlock: undefined, above: new Map(), isDamaged: false },
    });
  }

  stage(entry: BlockEntry): void {
    this.#line?.stage(entry);
  }

  async commit(batch: CommitBatch): Promise<void> {
    const line = this.#live();
    const before = line.state.latestIndexedHeight;
    const sporks = await line.commit(batch, {
      write: async (session, { latestIndexedHeight, meta }) => {
        if (batch.spork !== undefined) await writeSporks(session, [batch.spork]);
        if (latestIndexedHeight > before) await moveWatermark(session, before, latestIndexedHeight);
        return meta.sporks;
      },
    });
    if (batch.spork !== undefined) this.#sporks = sporks;
  }

  /** As the port says. Damaged records above the target are removed as well. */
  async rewind(height: number): Promise<void> {
    const line = this.#live();
    const { above, latestIndexedHeight } = line.state;
    const live = { from: this.#firstHeight, to: latestIndexedHeight };
    const after = rewound({ published: this.#published, live }, height);
    if (Math.max(latestIndexedHeight, ...above.keys()) <= height && !this.#isDamaged) return;
    if (after.live.from !== live.from) await this.#book.endRuns();
    const startedAtMs = this.#clock.monotonic();
    line.discardStaged();
    await line.alone(() => this.#writable().write((session) => forgetAbove(session, after)));
    this.#load(await this.#database.persist(() => load(this.#database, false)));
    this.#logger.info({ height, durationMs: this.#clock.monotonic() - startedAtMs }, 'rewind done');
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  blockByHeight(height: number): Promise<StoredBlock | undefined> {
    return this.#reader.blockByHeight(height);
  }

  blockById(id: Identifier): Promise<StoredBlock | undefined> {
    return this.#reader.blockById(id);
  }

  collectionsByHeight(height: number): Promise<readonly StoredCollection[] | undefined> {
    return this.#reader.collectionsByHeight(height);
  }

  collection(id: Identifier): Promise<StoredCollection | undefined> {
    return this.#reader.collection(id);
  }

  collectionPlaces(id: Identifier, limit: number): Promise<readonly CollectionPlace[]> {
    return this.#reader.collectionPlaces(id, limit);
  }

  transaction(id: Identifier): Promise<StoredTransaction | undefined> {
    return this.#reader.transaction(id);
  }

  transactionPlaces(id: Identifier, limit: number): Promise<readonly TransactionPlace[]> {
    return this.#reader.transactionPlaces(id, limit);
  }

  /** Whoever indexes waits for a database that is away; commands are told. */
  #readerOf(coverage: () => readonly HeightRange[]): PostgresIndexReader {
    const database = this.#database;
    const patient: Session = { query: (statement) => database.persist(() => database.query(statement)) };
    return new PostgresIndexReader({ session: this.#fence === undefined ? database : patient, coverage });
  }

  #load({ coverage, sporks, open, plans, latestBlock, above, isDamaged }: Loaded): void {
    this.#isDamaged = isDamaged;
    const live = coverage.at(-1);
    this.#published = coverage.slice(0, -1);
    this.#sporks = sporks;
    this.#book.load({ open, plans });
    if (live === undefined) return;
    this.#firstHeight = live.from;
    const state = { latestIndexedHeight: live.to, latestBlock, above };
    if (this.#line !== undefined) this.#line.change(state);
    else this.#line = new BlockLine(state, this.#lineParts());
  }

  #lineParts() {
    return {
      fence: () => this.#writable(),
      partitions: this.#partitions,
      scripts: this.#scripts,
      meta: () => this.#initialised(),
    };
  }

  #onPublished({ coverage, sporks, plans }: Published): void {
    this.#published = coverage.slice(0, -1);
    this.#firstHeight = coverage.at(-1)?.from ?? this.#firstHeight;
    this.#sporks = sporks;
    this.#book.load({ plans });
  }

  #inTurn<T>(action: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(action, action);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  #accountCoverage(): AccountCoverage {
    if (this.#line === undefined) return { from: 0, to: -1, missingHeights: 0 };
    return { from: this.#firstHeight, to: this.latestIndexedHeight(), missingHeights: 0 };
  }

  #initialised(): StoreMeta {
    const meta = this.meta();
    assert(meta !== undefined, 'the store is not initialised');
    return meta;
  }

  #live(): BlockLine {
    assert(this.#line !== undefined, 'the store is not initialised');
    return this.#line;
  }

  #writable(): Fence {
    assert(this.#fence !== undefined, 'the store was opened to be read');
    return this.#fence;
  }

  async #close(): Promise<void> {
    this.#database.giveUp();
    await this.#line?.end();
    await this.#book.endRuns();
    this.#lock.release();
    await this.#database.close();
    await this.#watching;
  }
}

/** The live range ends where this writer has left it, whatever range has joined it from below since. */
async function moveWatermark(session: Session, before: number, after: number): Promise<void> {
  const { rowCount } = await session.query({
    name: 'watermark',
    text: 'UPDATE flow_store.coverage SET to_height = $2 WHERE to_height = $1',
    values: [before, after],
  });
  assert(rowCount === 1, `no range ends at height ${before}`);
}

interface Rewound {
  readonly live: HeightRange;
  /** Everything above goes, plans included. */
  readonly target: number;
}

/** What a rewind leaves. Expected errors: `OperatorError` (`usage`). */
function rewound(
  { published, live }: { readonly published: readonly HeightRange[]; readonly live: HeightRange },
  height: number,
): Rewound {
  const isHeight = Number.isSafeInteger(height);
  if (isHeight && (height >= live.from || (height === live.from - 1 && published.length === 0))) {
    return { live: { from: live.from, to: Math.min(live.to, height) }, target: height };
  }
  const last = isHeight ? upTo(published, height).at(-1) : undefined;
  if (last !== undefined) return { live: last, target: last.to };
  const advice =
    published.length > 0
      ? `this store holds heights ${rangesInWords([...published, live])}, and nothing at or below ${height}. ` +
        'Name a height in one of them.'
      : `this store begins at height ${live.from}. The lowest height to rewind to is ${live.from - 1}, which forgets every block.`;
  throw new OperatorError('usage', `Cannot rewind to height ${height}: ${advice}`);
}

async function forgetAbove(session: Session, { live, target }: Rewound): Promise<void> {
  await deleteBlocks(session, live.to + 1, Number.MAX_SAFE_INTEGER);
  await session.query({
    text: 'DELETE FROM flow_store.coverage WHERE from_height > $1',
    values: [live.from],
  });
  await session.query({
    text: 'UPDATE flow_store.coverage SET to_height = $2 WHERE from_height = $1',
    values: [live.from, live.to],
  });
  await session.query({
    text: 'DELETE FROM flow_store.open_range WHERE from_height > $1',
    values: [live.from],
  });
  // A spork whose root is removed will be recorded again; the first one stays.
  await session.query({
    text: `DELETE FROM flow_store.spork WHERE root_height > $1`,
    values: [Math.max(target, live.from)],
  });
  const plans = (await readPlans(session)).filter(({ from }) => from <= target);
  const coverage = await readCoverage(session);
  await writePlans(
    session,
    withHoles(
      plans.map((plan) => ({ ...plan, to: Math.min(plan.to, target) })),
      coverage,
    ),
  );
}

/** `isTolerant`: a damaged block at the watermark is left to the rewind that follows. */
async function load(database: PostgresDatabase, isTolerant: boolean): Promise<Loaded> {
  const [coverage, sporks, open, plans] = await Promise.all([
    readCoverage(database),
    readSporks(database),
    readOpenRanges(database),
    readPlans(database),
  ]);
  const common = { coverage, sporks, open, plans, isDamaged: false };
  const live = coverage.at(-1);
  if (live === undefined) return { ...common, latestBlock: undefined, above: new Map() };
  const heads = await readHeads(database, live.to + 1, Number.MAX_SAFE_INTEGER);
  const above = new Map(heads.map((head) => [head.height, head]));
  if (live.to < live.from) return { ...common, latestBlock: undefined, above };
  try {
    return { ...common, latestBlock: await latestHead(database, live.to), above };
  } catch (error) {
    if (!isTolerant || !isCorruption(error)) throw error;
    return { ...common, latestBlock: undefined, above, isDamaged: true };
  }
}

async function latestHead(database: PostgresDatabase, height: number): Promise<BlockHead> {
  const reader = new PostgresIndexReader({
    session: database,
    coverage: () => [{ from: height, to: height }],
  });
  const stored = await reader.blockByHeight(height);
  if (stored === undefined) throw corruptRecord('block record', height, 'it is missing');
  return headOf(stored);
}
