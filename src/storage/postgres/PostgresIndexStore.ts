import type { FinalizedBlock } from '../../flow/index.js';
import type { AccountIndex } from '../port/AccountIndex.js';
import type { CheckedHeights, IndexStore, SharedStore } from '../port/IndexStore.js';
import type { BlockHead, CommitteeEvidence, HeightRange } from '../port/stored.js';
import { proofChecker } from '../records/blocks/assembleBlock.js';
import { sealEvidence } from '../records/blocks/committeeEvidence.js';
import { healingIn } from '../records/book/repairedBook.js';
import { within } from '../records/heightRanges.js';
import { databasePlace } from './connection/databasePlace.js';
import { PostgresDatabase } from './connection/PostgresDatabase.js';
import type { PostgresDatabaseDependencies } from './connection/PostgresDatabase.js';
import { LiveRange } from './LiveRange.js';
import type { LiveRangeOptions } from './LiveRange.js';
import { readAccountPage } from './reading/accountPage.js';
import { loadStore, readMark, readSizeBytes } from './reading/loadStore.js';
import type { Loaded, StoreMark } from './reading/loadStore.js';
import { prepareDatabase } from './tables/prepareDatabase.js';
import { checkStored } from './verify/verifyPostgres.js';
import { healRows } from './writing/changeRows.js';
import { addProofs, parseHeights } from './writing/unprovenRows.js';

/** How often to look for changes of other processes, each time with one small query. */
const LOOK_EVERY_MS = 300;

export interface PostgresIndexStoreOptions extends LiveRangeOptions {
  readonly url: string;
  /** Default true. False: a database without a store is refused (`missing`), for commands that only read. */
  readonly create?: boolean;
  /** Default true. False: the account index, which is always kept, is not shown. */
  readonly accounts?: boolean;
  /** How long to wait at the beginning for a database that refuses or does not answer. Default: not at all. */
  readonly waitMs?: number;
  /** The same later. Default: for as long as it takes. */
  readonly patienceMs?: number;
}

/** The IndexStore port on PostgreSQL (docs/postgresql.md), for any number of processes at once. */
export class PostgresIndexStore extends LiveRange implements IndexStore, SharedStore {
  readonly accounts: AccountIndex;
  readonly shared: SharedStore = this;
  readonly #holds: ReturnType<typeof proofChecker>;
  #closing: Promise<void> | undefined;
  /** The mark of the state that is known here. */
  #mark: StoreMark | undefined;
  /** Heights whose blocks may have no proof; `undefined`: none has one. */
  #unproven: readonly HeightRange[] | undefined;
  #proven: BlockHead | undefined;
  /** Its height, as the database had it last. */
  #provenMark: number | null = null;
  readonly #watching: Promise<undefined> | undefined;

  private constructor(
    options: PostgresIndexStoreOptions,
    database: PostgresDatabase,
    loaded: Loaded & Pick<StoreMark, 'unproven'>,
    dependencies: PostgresDatabaseDependencies,
  ) {
    super(options, database, loaded, dependencies);
    const { accounts = true, isReadOnly = false } = options;
    this.#holds = proofChecker(options.chainId);
    this.#unproven = parseHeights(loaded.unproven);
    this.accounts = {
      coverage: () => {
        if (!accounts) return undefined;
        const meta = this.meta();
        if (meta === undefined) return { from: 0, to: -1, missingHeights: 0 };
        return { from: meta.firstHeight, to: this.latestIndexedHeight(), missingHeights: 0 };
      },
      page: (query) => readAccountPage(this.session, query, this.accounts.coverage()),
      // Its entries are written with the blocks.
      extend: () => Promise.resolve(),
    };
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

  /** Why the database does not do what is asked; `undefined` while it does. */
  trouble(): string | undefined {
    return this.database.trouble();
  }

  sizeBytes(): Promise<number> {
    return readSizeBytes(this.database);
  }

  unproven(): readonly HeightRange[] {
    const unproven = this.#unproven;
    const coverage = this.coverage();
    return unproven === undefined ? coverage : coverage.flatMap((range) => within(unproven, range));
  }

  async addProofs(proven: readonly FinalizedBlock[]): Promise<void> {
    const { database } = this;
    this.#unproven = parseHeights(
      await database.persist(() => database.transaction((session) => addProofs(session, proven))),
    );
  }

  healing(): readonly HeightRange[] {
    return healingIn(this.ranges.plans(), this.coverage());
  }

  heal(damaged: readonly HeightRange[], lastPlan = 0): Promise<readonly HeightRange[]> {
    const { database } = this;
    return this.inTurn(async () => {
      const healed = await database.persist(() =>
        database.transaction((session) => healRows(session, damaged, lastPlan)),
      );
      if (healed === undefined) return [];
      this.adopt(healed);
      this.changes.tell();
      return healed.holes;
    });
  }

  check(range: HeightRange, signal?: AbortSignal): Promise<CheckedHeights> {
    return checkStored(this.session, range, { holds: this.#holds, signal });
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

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Runs a statement over `leader`, which has a row while this process leads. */
  async #asLeader(text: string, ...[height, ...more]: readonly [number, ...Buffer[]]): Promise<void> {
    if (!this.isLeading()) return;
    const { database } = this;
    const { epoch } = this.fence();
    // The lock lets nobody take over, and rewind, between the comparison and the write.
    const leader = 'WITH leader AS MATERIALIZED (SELECT FROM flow_store.store WHERE epoch = $2 FOR SHARE)';
    const values = [height, epoch, ...more];
    await database.persist(() => database.query({ text: `${leader} ${text}`, values }));
  }

  /** Finds out what other processes have done to the store. */
  async #look(): Promise<undefined> {
    const mark = await readMark(this.database);
    this.noticeEpoch(mark.epoch);
    this.#unproven = parseHeights(mark.unproven);
    const isSame = mark.rest === this.#mark?.rest && (this.isLeading() || mark.live === this.#mark.live);
    if (isSame && mark.proven === this.#provenMark) return;
    if (!isSame) await this.#join(mark);
    const proven = mark.proven === null ? undefined : await this.blockByHeight(mark.proven);
    this.#proven = proven?.block;
    this.#provenMark = mark.proven;
    this.changes.tell();
  }

  /** Takes over what other processes have written. */
  async #join(mark: StoreMark): Promise<void> {
    await this.inTurn(async () => {
      const options = { isTolerant: true, before: this.latestBlock() };
      const loaded = await this.database.snapshot((session) => loadStore(session, options));
      const isLeading = this.isLeading();
      if (isLeading) {
        const { coverage, sporks, open, plans } = loaded;
        this.adopt({ coverage, sporks, open, plans });
      } else this.load(loaded);
      // What another leader has written is not known before this process has stopped leading.
      this.#mark = isLeading ? { ...mark, live: '' } : mark;
    });
  }

  async #close(): Promise<void> {
    this.database.giveUp();
    await this.endLines();
    await this.database.close();
    await this.#watching;
  }
}
