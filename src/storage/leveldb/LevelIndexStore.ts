import { ok as assert } from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { Identifier } from '../../flow/index.js';
import type { Logger } from '../../observability/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { OPEN_END } from '../records/accountCoverage.js';
import { forgetAccounts } from '../accounts/forgetAccounts.js';
import { LevelAccountIndex } from '../accounts/LevelAccountIndex.js';
import type { Database } from '../records/Database.js';
import { droppedAtOpen, holdsData, prepareDirectory, refuseDamagedFiles } from './storeDirectory.js';
import type {
  AccountIndex,
  BlockEntry,
  BlockHead,
  CollectionPlace,
  CommitBatch,
  HeightRange,
  IndexStore,
  RangeBook,
  StoredBlock,
  StoredCollection,
  StoredTransaction,
  StoreMeta,
  TransactionPlace,
} from '../IndexStore.js';
import { LevelIndexReader } from './LevelIndexReader.js';
import { LevelIndexWriter } from './LevelIndexWriter.js';
import { defaultTuning, openLevelDatabase } from './LevelDatabase.js';
import type { LevelTuning, OpenDatabase } from './LevelDatabase.js';
import { loadState, loadStore } from './openStore.js';
import type { LoadedStore } from './openStore.js';
import { encodeCoverage, encodeMeta, encodeProgress } from '../records/codecs.js';
import { beginRewind, finishRewind, metaAfterRewind } from './rewind.js';
import {
  ACCOUNTS_SCHEMA_VERSION,
  COVERAGE_KEY,
  META_KEY,
  Prefix,
  prefixRange,
  PROGRESS_KEY,
  SCHEMA_VERSION,
  seal,
} from '../records/schema.js';
import { coverageOf } from '../records/storeState.js';
import type { StoreState } from '../records/storeState.js';
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
   * be rewound away. Nothing but `rewind` may be called then.
   */
  readonly forRewind?: boolean;
  /** Default false. True: readers on other threads may open it beside this one (`LevelReplica`); they close it first. */
  readonly isShared?: boolean;
  /** Whether the account index is kept. Default: it is left as it is, for commands that index nothing. */
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
export class LevelIndexStore implements IndexStore {
  readonly #database: Database;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #reader: LevelIndexReader;
  readonly #writer: LevelIndexWriter;
  readonly #accounts: LevelAccountIndex;
  #state: StoreState | undefined;
  #closing: Promise<void> | undefined;

  private constructor(
    database: Database,
    { state, coverage }: LoadedStore,
    { accounts = false }: Pick<LevelIndexStoreOptions, 'accounts'>,
    { logger, clock }: LevelIndexStoreDependencies,
  ) {
    this.#database = database;
    this.#state = state;
    this.#logger = logger;
    this.#clock = clock;
    this.#reader = new LevelIndexReader({ database, covers: (height) => this.#covers(height) });
    this.#writer = new LevelIndexWriter({ clock, database, hasAccounts: () => this.#accounts.isLive() });
    this.#accounts = new LevelAccountIndex(
      { coverage, isWanted: accounts },
      {
        database,
        range: () => this.#state && { ...this.#state, firstHeight: this.#state.meta.firstHeight },
        writeBeside: (action) => this.#writer.beside(action),
      },
    );
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
   * As `open`, over an open database, which is closed with the store. For the simulation, whose database can lose
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
    const { state } = loaded;
    dependencies.logger.info(
      {
        path,
        latestIndexedHeight: state?.latestBlock?.height,
        blocksAboveWatermark: state?.above.size,
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
    throw new Error('not built yet');
  }

  coverage(): readonly HeightRange[] {
    const state = this.#state;
    if (state?.latestBlock === undefined) return [];
    return [{ from: state.meta.firstHeight, to: state.latestIndexedHeight }];
  }

  meta(): StoreMeta | undefined {
    return this.#state?.meta;
  }

  /** 0 for a store that was never initialised. */
  latestIndexedHeight(): number {
    return this.#state?.latestIndexedHeight ?? 0;
  }

  latestBlock(): BlockHead | undefined {
    return this.#state?.latestBlock;
  }

  blocksAboveWatermark(): readonly BlockHead[] {
    return [...(this.#state?.above.values() ?? [])].sort((left, right) => left.height - right.height);
  }

  hasHeight(height: number): boolean {
    return this.#covers(height) || this.#state?.above.has(height) === true;
  }

  async initialise(meta: StoreMeta): Promise<void> {
    assert(this.#state === undefined, 'the store is initialised already');
    assert(meta.schemaVersion === SCHEMA_VERSION, `this program writes schema ${SCHEMA_VERSION}`);
    const latestIndexedHeight = meta.firstHeight - 1;
    const hasAccounts = this.#accounts.coverage() !== undefined;
    const coverage = hasAccounts ? [{ from: meta.firstHeight, to: OPEN_END }] : undefined;
    const begun = hasAccounts ? { ...meta, schemaVersion: ACCOUNTS_SCHEMA_VERSION } : meta;
    await this.#writer.alone(() => {
      const batch = this.#database.batch();
      batch.put(META_KEY, seal(META_KEY, encodeMeta(begun)));
      batch.put(PROGRESS_KEY, seal(PROGRESS_KEY, encodeProgress(latestIndexedHeight)));
      if (coverage !== undefined) batch.put(COVERAGE_KEY, seal(COVERAGE_KEY, encodeCoverage(coverage)));
      return batch.write();
    });
    this.#accounts.release(coverage);
    this.#state = {
      meta: begun,
      latestIndexedHeight,
      latestBlock: undefined,
      above: new Map(),
      damaged: false,
    };
  }

  stage(entry: BlockEntry): void {
    this.#writer.stage(entry);
  }

  async commit(batch: CommitBatch): Promise<void> {
    this.#writer.assertIdle();
    const state = this.#initialised();
    const next = stateAfter(state, batch);
    const meta = next.meta === state.meta ? undefined : next.meta;
    await this.#writer.commit(batch.blocks, { latestIndexedHeight: next.latestIndexedHeight, meta });
    this.#state = next;
  }

  /**
   * As the port says; also expected: `OperatorError` (`usage`) for a height below the first height - 1. Logs its
   * progress. Damaged records above the target are removed as well.
   */
  async rewind(height: number): Promise<void> {
    this.#writer.assertIdle();
    const state = this.#initialised();
    const { meta, latestIndexedHeight: watermarkBefore } = state;
    if (!Number.isSafeInteger(height) || height < meta.firstHeight - 1) {
      throw new OperatorError(
        'usage',
        `Cannot rewind to height ${height}: this store begins at height ${meta.firstHeight}. ` +
          `The lowest height to rewind to is ${meta.firstHeight - 1}, which forgets every block.`,
      );
    }
    const remaining = Math.max(watermarkBefore, ...state.above.keys());
    if (remaining <= height && !state.damaged) return;
    const startedAtMs = this.#clock.monotonic();
    const lastStep = this.#accounts.hold();
    if (lastStep !== undefined) await lastStep;
    this.#writer.discardStaged();
    await this.#writer.alone(async () => {
      const intent = { target: height, remaining, watermarkBefore, sweep: state.damaged };
      await beginRewind(this.#database, meta, intent);
      this.#logger.info({ height, from: remaining }, 'rewind begins');
      const coverage = await coverageOf(this.#database, meta);
      await finishRewind(this.#database, intent, { logger: this.#logger, coverage });
    });
    this.#state = await loadState(this.#database, metaAfterRewind(meta, height), false);
    this.#accounts.release(await coverageOf(this.#database, meta));
    this.#logger.info({ height, durationMs: this.#clock.monotonic() - startedAtMs }, 'rewind done');
  }

  /**
   * Removes the account index, whether it is on or was; a store opened with it later rebuilds it. Returns the number of
   * entries removed; `undefined` when there was no index. Rejects as `rewind`.
   */
  async forgetAccounts(): Promise<number | undefined> {
    this.#writer.assertIdle();
    const { meta } = this.#initialised();
    if (meta.schemaVersion < ACCOUNTS_SCHEMA_VERSION) return undefined;
    await this.#accounts.hold();
    this.#writer.discardStaged();
    let forgotten = { meta, entries: 0 };
    await this.#writer.alone(async () => {
      forgotten = await forgetAccounts(this.#database, meta);
      await this.#database.compact(prefixRange(Prefix.account));
    });
    this.#state = { ...this.#initialised(), meta: forgotten.meta };
    this.#accounts.release(undefined);
    return forgotten.entries;
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

  #initialised(): StoreState {
    assert(this.#state !== undefined, 'the store is not initialised');
    return this.#state;
  }

  async #close(): Promise<void> {
    await this.#accounts.hold();
    await this.#writer.end();
    await this.#database.close();
  }

  #covers(height: number): boolean {
    const state = this.#state;
    return (
      state !== undefined &&
      Number.isSafeInteger(height) &&
      height >= state.meta.firstHeight &&
      height <= state.latestIndexedHeight
    );
  }
}
