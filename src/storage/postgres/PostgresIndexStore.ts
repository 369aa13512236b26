import type { FinalizedBlock } from '../../flow/index.js';
import { Listeners } from '../../runtime/index.js';
import type { AccountIndex } from '../port/AccountIndex.js';
import type { CheckedHeights, IndexStore, SharedStore } from '../port/IndexStore.js';
import type { RangeBook } from '../port/RangeBook.js';
import type { BlockEntry, CommitBatch } from '../port/RangeStore.js';
import type { BlockHead, CommitteeEvidence, HeightRange, StoreMeta } from '../port/stored.js';
import { proofChecker } from '../records/blocks/assembleBlock.js';
import { sealEvidence } from '../records/blocks/committeeEvidence.js';
import { healingIn } from '../records/book/repairedBook.js';
import { DelegatingReader } from '../records/reading/DelegatingReader.js';
import { within } from '../records/heightRanges.js';
import type { RecordReader } from '../records/reading/RecordReader.js';
import { databasePlace } from './connection/databasePlace.js';
import { PostgresDatabase } from './connection/PostgresDatabase.js';
import type { PostgresDatabaseDependencies } from './connection/PostgresDatabase.js';
import type { Session } from './connection/Session.js';
import { KnownStore } from './live/KnownStore.js';
import { LiveRange } from './live/LiveRange.js';
import { PostgresRangeBook } from './ranges/PostgresRangeBook.js';
import { readAccountPage } from './reading/accountPage.js';
import { loadStore, readMark, readSizeBytes } from './reading/loadStore.js';
import type { Loaded, StoreMark } from './reading/loadStore.js';
import { postgresReader } from './reading/postgresReader.js';
import { Partitions } from './tables/Partitions.js';
import { prepareDatabase } from './tables/prepareDatabase.js';
import { Scripts } from './tables/Scripts.js';
import { checkStored } from './verify/verifyPostgres.js';
import { healRows } from './writing/changeRows.js';
import { addProofs, parseHeights } from './writing/unprovenRows.js';

/** How often to look for changes of other processes, each time with one small query. */
const LOOK_EVERY_MS = 300;

export interface PostgresIndexStoreOptions {
  readonly url: string;
  /** A store of another chain is refused. */
  readonly chainId: string;
  /** Default true. False: a database without a store is refused (`missing`), for commands that only read. */
  readonly create?: boolean;
  /**
   * Default false. True: for a command that only reads. It does not see later commits of others, does not wait for an
   * unreachable database, and may not lead.
   */
  readonly isReadOnly?: boolean;
  /** As `LevelIndexStoreOptions.forRewind`. */
  readonly forRewind?: boolean;
  /** Default true. False: the account index, which is always kept, is not shown. */
  readonly accounts?: boolean;
  /** How long to wait at the beginning for a database that refuses or does not answer. Default: not at all. */
  readonly waitMs?: number;
  /** The same later. Default: for as long as it takes. */
  readonly patienceMs?: number;
}

/** The IndexStore port on PostgreSQL (docs/postgresql.md), for any number of processes at once. */
export class PostgresIndexStore extends DelegatingReader implements IndexStore {
  readonly accounts: AccountIndex;
  readonly shared: SharedStore;
  readonly reads: RecordReader;
  readonly #database: PostgresDatabase;
  readonly #session: Session;
  readonly #holds: ReturnType<typeof proofChecker>;
  readonly #book: PostgresRangeBook;
  readonly #known: KnownStore;
  readonly #live: LiveRange;
  #closing: Promise<void> | undefined;
  readonly #changes = new Listeners();
  /** The mark of the state that is known here. */
  #mark: StoreMark | undefined;
  /** Heights whose blocks may have no proof; `undefined`: none has one. */
  #unproven: readonly HeightRange[] | undefined;
  #proven: BlockHead | undefined;
  /** Its height, as the database had it last. */
  #provenMark: number | null = null;
  readonly #watching: Promise<undefined> | undefined;
  /** Publications and reads of others' changes, one after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(
    options: PostgresIndexStoreOptions,
    database: PostgresDatabase,
    loaded: Loaded,
    dependencies: PostgresDatabaseDependencies,
  ) {
    super();
    const { accounts = true, isReadOnly = false } = options;
    this.#database = database;
    const common = { partitions: new Partitions({ database }), scripts: new Scripts() };
    const known: KnownStore = new KnownStore(options, {
      ...common,
      fence: () => this.#live.fence(),
      onBook: (facts) => this.#book.load(facts),
    });
    this.#known = known;
    this.#live = new LiveRange(options, {
      ...dependencies,
      database,
      known,
      inTurn: (action) => this.#inTurn(action),
      onChanged: () => this.#changes.tell(),
      endRuns: () => this.#book.endRuns(),
    });
    // The daemon waits for an unreachable database; commands get the error.
    const session: Session = isReadOnly
      ? database
      : { query: (statement) => database.persist(() => database.query(statement)) };
    this.#session = session;
    this.#holds = proofChecker(options.chainId);
    this.reads = postgresReader(session, () => this.coverage());
    this.accounts = {
      coverage: () => (accounts ? this.#known.accountCoverage() : undefined),
      page: (query) => readAccountPage(session, query, this.accounts.coverage()),
      // Its entries are written with the blocks.
      extend: () => Promise.resolve(),
    };
    this.shared = {
      lead: () => this.#live.lead(),
      follow: () => this.#live.follow(),
      isLeading: () => this.#live.isLeading,
      sizeBytes: () => readSizeBytes(database),
      onChanged: (callback) => this.#changes.add(callback),
    };
    this.#book = new PostgresRangeBook(loaded, {
      ...common,
      database,
      storeMeta: () => this.#known.initialised(),
      coverage: () => this.coverage(),
      readerOf: (coverage) => postgresReader(session, coverage),
      inTurn: (action) => this.#inTurn(action),
      onPublished: (published) => this.#known.publish(published),
    });
    this.#known.load(loaded);
    this.#watching = isReadOnly ? undefined : database.watch<never>(() => this.#look(), LOOK_EVERY_MS);
  }

  /**
   * Opens the store of a chain, and creates its tables if there are none. It locks nobody out, and may not write the live
   * range before it leads (`shared`).
   *
   * Expected errors: `StorageError` (unavailable, …); `OperatorError`: `foreign` for a store of another chain,
   * `configuration` for a newer schema, a server that is too old, a pooler without sessions and an unusable URL.
   */
  static async open(
    options: PostgresIndexStoreOptions,
    dependencies: PostgresDatabaseDependencies,
  ): Promise<PostgresIndexStore> {
    const { chainId, create = true, forRewind = false, isReadOnly = false, patienceMs, waitMs = 0 } = options;
    const { clock, logger } = dependencies;
    const startedAtMs = clock.monotonic();
    const database = new PostgresDatabase(databasePlace(options.url), dependencies, { patienceMs });
    try {
      const loaded = await database.persist(async () => {
        await prepareDatabase(database, { chainId, create, isReadOnly });
        const unproven = isReadOnly ? null : (await readMark(database)).unproven;
        const facts = await database.snapshot((session) => loadStore(session, { isTolerant: forRewind }));
        return { ...facts, unproven };
      }, startedAtMs + waitMs);
      const store = new PostgresIndexStore(options, database, loaded, dependencies);
      store.#unproven = parseHeights(loaded.unproven);
      const facts = {
        store: database.place,
        latestIndexedHeight: loaded.latestBlock?.height,
        blocksAboveWatermark: loaded.above.size,
        durationMs: clock.monotonic() - startedAtMs,
      };
      logger.info(facts, 'store opened');
      return store;
    } catch (error) {
      await database.close();
      throw error;
    }
  }

  get ranges(): RangeBook {
    return this.#book;
  }

  /** Why the database does not do what is asked; `undefined` while it does. */
  trouble(): string | undefined {
    return this.#database.trouble();
  }

  coverage(): readonly HeightRange[] {
    return this.#known.coverage();
  }

  meta(): StoreMeta | undefined {
    return this.#known.meta();
  }

  /** 0 for a store that was never initialised. */
  latestIndexedHeight(): number {
    return this.#known.latestIndexedHeight();
  }

  latestBlock(): BlockHead | undefined {
    return this.#known.latestBlock;
  }

  rewinds(): number {
    return this.#known.rewinds;
  }

  blocksAboveWatermark(): readonly BlockHead[] {
    return this.#known.line?.blocksAboveWatermark() ?? [];
  }

  hasHeight(height: number): boolean {
    return this.#known.line?.hasHeight(height) === true;
  }

  unproven(): readonly HeightRange[] {
    const unproven = this.#unproven;
    const coverage = this.coverage();
    return unproven === undefined ? coverage : coverage.flatMap((range) => within(unproven, range));
  }

  async addProofs(proven: readonly FinalizedBlock[]): Promise<void> {
    const database = this.#database;
    this.#unproven = parseHeights(
      await database.persist(() => database.transaction((session) => addProofs(session, proven))),
    );
  }

  healing(): readonly HeightRange[] {
    return healingIn(this.ranges.plans(), this.coverage());
  }

  heal(damaged: readonly HeightRange[], lastPlan = 0): Promise<readonly HeightRange[]> {
    const database = this.#database;
    return this.#inTurn(async () => {
      const healed = await database.persist(() =>
        database.transaction((session) => healRows(session, damaged, lastPlan)),
      );
      if (healed === undefined) return [];
      this.#known.publish(healed);
      this.#changes.tell();
      return healed.holes;
    });
  }

  check(range: HeightRange, signal?: AbortSignal): Promise<CheckedHeights> {
    return checkStored(this.#session, range, { holds: this.#holds, signal });
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

  initialise(meta: StoreMeta): Promise<void> {
    return this.#live.initialise(meta);
  }

  stage(entry: BlockEntry): void {
    this.#known.line?.stage(entry);
  }

  commit(batch: CommitBatch): Promise<void> {
    return this.#live.commit(batch);
  }

  rewind(height: number): Promise<void> {
    return this.#live.rewind(height);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Runs a statement over `leader`, which has a row while this process leads. */
  async #asLeader(text: string, ...[height, ...more]: readonly [number, ...Buffer[]]): Promise<void> {
    if (!this.#live.isLeading) return;
    const database = this.#database;
    const { epoch } = this.#live.fence();
    // The lock lets nobody take over, and rewind, between the comparison and the write.
    const leader = 'WITH leader AS MATERIALIZED (SELECT FROM flow_store.store WHERE epoch = $2 FOR SHARE)';
    const values = [height, epoch, ...more];
    await database.persist(() => database.query({ text: `${leader} ${text}`, values }));
  }

  /** Finds out what other processes have done to the store. */
  async #look(): Promise<undefined> {
    const mark = await readMark(this.#database);
    this.#live.noticeEpoch(mark.epoch);
    this.#unproven = parseHeights(mark.unproven);
    const { isLeading } = this.#live;
    const isSame = mark.rest === this.#mark?.rest && (isLeading || mark.live === this.#mark.live);
    if (isSame && mark.proven === this.#provenMark) return;
    if (!isSame) await this.#join(mark);
    const proven = mark.proven === null ? undefined : await this.blockByHeight(mark.proven);
    this.#proven = proven?.block;
    this.#provenMark = mark.proven;
    this.#changes.tell();
  }

  /** Takes over what other processes have written. */
  async #join(mark: StoreMark): Promise<void> {
    await this.#inTurn(async () => {
      const options = { isTolerant: true, before: this.#known.latestBlock };
      const loaded = await this.#database.snapshot((session) => loadStore(session, options));
      const { isLeading: leadsNow } = this.#live;
      if (leadsNow) this.#known.join(loaded);
      else this.#known.load(loaded);
      // What another leader has written is not known before this process has stopped leading.
      this.#mark = leadsNow ? { ...mark, live: '' } : mark;
    });
  }

  #inTurn<T>(action: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(action, action);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  async #close(): Promise<void> {
    this.#database.giveUp();
    await this.#known.line?.end();
    await this.#book.endRuns();
    await this.#database.close();
    await this.#watching;
  }
}
