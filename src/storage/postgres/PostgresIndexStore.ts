import { ok as assert } from 'node:assert/strict';
import type { Logger } from '../../observability/index.js';
import { AbortError, Listeners } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type {
  AccountIndex,
  BlockEntry,
  BlockHead,
  CommitBatch,
  HeightRange,
  IndexStore,
  RangeBook,
  SharedStore,
  StoreMeta,
} from '../IndexStore.js';
import type { RecordReader } from '../records/RecordReader.js';
import { DelegatingReader } from '../records/DelegatingReader.js';
import { StorageError } from '../StorageError.js';
import type { BlockLine } from './writing/BlockLine.js';
import { databasePlace } from './connection/databasePlace.js';
import { Fence } from './writing/Fence.js';
import { KnownStore } from './KnownStore.js';
import { loadStore, readMark, weighStore } from './reading/loadStore.js';
import type { Loaded, StoreMark } from './reading/loadStore.js';
import { prepareDatabase } from './tables/prepareDatabase.js';
import { Partitions } from './tables/Partitions.js';
import { PostgresDatabase } from './connection/PostgresDatabase.js';
import type { PostgresDatabaseDependencies } from './connection/PostgresDatabase.js';
import type { Session, WriteSession } from './connection/Session.js';
import { readAccountPage } from './reading/accountPage.js';
import { postgresReader } from './reading/postgresReader.js';
import { PostgresRangeBook } from './ranges/PostgresRangeBook.js';
import { writeSporks } from './tables/readState.js';
import { forgetAbove, rewound } from './writing/rewindRows.js';
import { Scripts } from './tables/Scripts.js';

/** How often it is looked whether others have changed something, at the cost of one small query. */
const LOOK_EVERY_MS = 300;

export interface PostgresIndexStoreOptions {
  readonly url: string;
  /** A store of another chain is refused. */
  readonly chainId: string;
  /** Default true. False: a database without a store is refused (`missing`), for commands that only read. */
  readonly create?: boolean;
  /**
   * Default false. True: for a command that reads. It learns nothing of what others commit later, does not wait for a
   * database that is away, and may not lead.
   */
  readonly isReadOnly?: boolean;
  /** As `LevelIndexStoreOptions.forRewind`. */
  readonly forRewind?: boolean;
  /** Default true. False: the account index, which is always kept, is not shown. */
  readonly accounts?: boolean;
  /** How long a database is waited for that does not answer. Default: not at all. */
  readonly waitMs?: number;
}

/** While this process leads. */
interface Leading {
  readonly fence: Fence;
  readonly replaced: AbortController;
}

/** The IndexStore port on PostgreSQL (docs/postgresql.md), for any number of processes at once. */
export class PostgresIndexStore extends DelegatingReader implements IndexStore {
  readonly accounts: AccountIndex;
  readonly shared: SharedStore;
  readonly reads: RecordReader;
  readonly #options: PostgresIndexStoreOptions;
  readonly #database: PostgresDatabase;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #book: PostgresRangeBook;
  readonly #known: KnownStore;
  readonly #changes = new Listeners();
  #leading: Leading | undefined;
  /** Of what is known here. */
  #mark: StoreMark | undefined;
  #closing: Promise<void> | undefined;
  readonly #watching: Promise<void> | undefined;
  /** Publications and looks at what others have done, one after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(
    options: PostgresIndexStoreOptions,
    {
      database,
      loaded,
      logger,
      clock,
    }: PostgresDatabaseDependencies & {
      readonly database: PostgresDatabase;
      readonly loaded: Loaded;
    },
  ) {
    super();
    const { accounts = true, isReadOnly = false } = options;
    this.#options = options;
    this.#database = database;
    this.#logger = logger;
    this.#clock = clock;
    const common = { partitions: new Partitions({ database }), scripts: new Scripts() };
    this.#known = new KnownStore(options, {
      ...common,
      fence: () => this.#writable(),
      book: () => this.#book,
    });
    // Whoever indexes waits for a database that is away; commands are told.
    const session: Session = isReadOnly
      ? database
      : { query: (statement) => database.persist(() => database.query(statement)) };
    this.reads = postgresReader(session, () => this.coverage());
    this.accounts = {
      coverage: () => (accounts ? this.#known.accountCoverage() : undefined),
      page: (query) => readAccountPage(session, query, this.accounts.coverage()),
      // Its entries are written with the blocks.
      extend: () => Promise.resolve(),
    };
    this.shared = {
      lead: () => this.#lead(),
      follow: () => this.#follow(),
      isLeading: () => this.#leading !== undefined,
      weigh: () => weighStore(database),
      onChanged: (callback) => this.#changes.add(callback),
    };
    this.#book = new PostgresRangeBook(loaded, {
      ...{ ...common, database },
      storeMeta: () => this.#known.initialised(),
      coverage: () => this.coverage(),
      readerOf: (coverage) => postgresReader(session, coverage),
      inTurn: (action) => this.#inTurn(action),
      onPublished: (published) => this.#known.publish(published),
    });
    this.#known.load(loaded);
    this.#watching = isReadOnly ? undefined : database.watch(() => this.#look(), LOOK_EVERY_MS);
  }

  /**
   * Opens the store of a chain, and makes its tables where there are none. It keeps nobody out, and may not write the live
   * range before it leads (`shared`).
   *
   * Expected errors: `StorageError` (unavailable, …); `OperatorError`: `foreign` for a store of another chain,
   * `configuration` for a newer schema, a server that is too old, and a URL that cannot be used.
   */
  static async open(
    options: PostgresIndexStoreOptions,
    dependencies: PostgresDatabaseDependencies,
  ): Promise<PostgresIndexStore> {
    const { chainId, create = true, forRewind = false, waitMs = 0 } = options;
    const { clock, logger } = dependencies;
    const startedAtMs = clock.monotonic();
    const database = new PostgresDatabase(databasePlace(options.url), dependencies);
    try {
      const loaded = await database.persist(async () => {
        await prepareDatabase(database, { chainId, create });
        return database.snapshot((session) => loadStore(session, forRewind));
      }, startedAtMs + waitMs);
      const store = new PostgresIndexStore(options, { database, loaded, clock, logger });
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

  /** What keeps the database from answering now; `undefined` while nothing does. */
  trouble(): string | undefined {
    return this.#database.trouble()?.message;
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
    return this.#known.line?.state.latestBlock;
  }

  blocksAboveWatermark(): readonly BlockHead[] {
    return this.#known.line?.blocksAboveWatermark() ?? [];
  }

  hasHeight(height: number): boolean {
    return this.#known.line?.hasHeight(height) === true;
  }

  async initialise(meta: StoreMeta): Promise<void> {
    assert(this.meta() === undefined, 'the store is initialised already');
    assert(meta.chainId === this.#options.chainId, 'a store is of one chain');
    const latestIndexedHeight = meta.firstHeight - 1;
    await this.#asLeader(({ fence }) =>
      fence.write(async (session) => {
        await session.query({
          text: 'UPDATE flow_store.store SET created_by = $1',
          values: [meta.createdBy],
        });
        await session.query({
          text: 'INSERT INTO flow_store.coverage VALUES ($1, $2)',
          values: [meta.firstHeight, latestIndexedHeight],
        });
        await writeSporks(session, meta.sporks);
      }),
    );
    this.#known.load({
      ...{ coverage: [{ from: meta.firstHeight, to: latestIndexedHeight }], sporks: meta.sporks },
      createdBy: meta.createdBy,
      ...{ open: [], plans: [], latestBlock: undefined, above: new Map(), isDamaged: false },
    });
  }

  stage(entry: BlockEntry): void {
    this.#known.line?.stage(entry);
  }

  async commit(batch: CommitBatch): Promise<void> {
    const line = this.#live();
    const before = line.state.latestIndexedHeight;
    const sporks = await this.#asLeader(() =>
      line.commit(batch, {
        write: async (session, { latestIndexedHeight, meta }) => {
          if (batch.spork !== undefined) await writeSporks(session, [batch.spork]);
          if (latestIndexedHeight > before) moveWatermark(session, before, latestIndexedHeight);
          return meta.sporks;
        },
      }),
    );
    if (batch.spork !== undefined) this.#known.addSporks(sporks);
  }

  /** As the port says. Damaged records above the target are removed as well. */
  async rewind(height: number): Promise<void> {
    const line = this.#live();
    const { above, latestIndexedHeight } = line.state;
    const { live, published, isDamaged } = this.#known;
    const after = rewound({ published, live }, height);
    if (Math.max(latestIndexedHeight, ...above.keys()) <= height && !isDamaged) return;
    if (after.live.from !== live.from) await this.#book.endRuns();
    const startedAtMs = this.#clock.monotonic();
    line.discardStaged();
    await this.#inTurn(async () => {
      await this.#asLeader(({ fence }) =>
        line.alone(() => fence.write((session) => forgetAbove(session, height))),
      );
      this.#known.load(await this.#loaded({ isTolerant: false }));
    });
    this.#logger.info({ height, durationMs: this.#clock.monotonic() - startedAtMs }, 'rewind done');
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #lead(): Promise<AbortSignal> {
    assert(this.#options.isReadOnly !== true, 'the store was opened to be read');
    await this.#follow();
    const database = this.#database;
    const fence = await database.persist(() =>
      database.transaction((session) => Fence.take(database, session, { table: 'store' })),
    );
    const replaced = new AbortController();
    await this.#inTurn(async () => {
      const loaded = await this.#loaded({ isTolerant: this.#options.forRewind === true });
      this.#known.load(loaded);
      this.#known.renew();
      this.#leading = { fence, replaced };
    });
    this.#changes.tell();
    return replaced.signal;
  }

  async #follow(): Promise<void> {
    if (this.#leading === undefined) return;
    await this.#known.line?.end();
    this.#leading = undefined;
    this.#known.renew();
  }

  /** A write of the leader. One that another has replaced is told so. */
  async #asLeader<T>(write: (leading: Leading) => Promise<T>): Promise<T> {
    const leading = this.#leading;
    assert(leading !== undefined, 'this process does not lead');
    try {
      return await write(leading);
    } catch (error) {
      if (error instanceof StorageError && error.kind === 'locked') leading.replaced.abort(replacement());
      throw error;
    }
  }

  /** Learns what others have changed. Expected errors: `StorageError`. */
  async #look(): Promise<void> {
    const mark = await readMark(this.#database);
    const leading = this.#leading;
    if (leading !== undefined && mark.epoch > leading.fence.epoch) leading.replaced.abort(replacement());
    const isKnown =
      mark.rest === this.#mark?.rest && (leading !== undefined || mark.live === this.#mark.live);
    if (isKnown) return;
    await this.#inTurn(async () => {
      const loaded = await this.#database.snapshot((session) => loadStore(session, true));
      if (this.#leading === undefined) this.#known.load(loaded);
      else this.#known.join(loaded);
      this.#mark = mark;
    });
    this.#changes.tell();
  }

  #loaded({ isTolerant }: { readonly isTolerant: boolean }): Promise<Loaded> {
    const database = this.#database;
    return database.persist(() => database.snapshot((session) => loadStore(session, isTolerant)));
  }

  #inTurn<T>(action: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(action, action);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  #live(): BlockLine {
    const { line } = this.#known;
    assert(line !== undefined, 'the store is not initialised');
    return line;
  }

  #writable(): Fence {
    assert(this.#leading !== undefined, 'this process does not lead');
    return this.#leading.fence;
  }

  async #close(): Promise<void> {
    this.#database.giveUp();
    await this.#known.line?.end();
    await this.#book.endRuns();
    await this.#database.close();
    await this.#watching;
  }
}

function replacement(): AbortError {
  return new AbortError('another process leads now');
}

/** The live range ends where this writer has left it, whatever range has joined it from below since. */
function moveWatermark(session: WriteSession, before: number, after: number): void {
  session.later(
    {
      name: 'watermark',
      text: 'UPDATE flow_store.coverage SET to_height = $2 WHERE to_height = $1',
      values: [before, after],
    },
    (rowCount) => assert(rowCount === 1, `no range ends at height ${before}`),
  );
}
