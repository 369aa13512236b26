import { ok as assert } from 'node:assert/strict';
import { AbortError, Listeners } from '../../runtime/index.js';
import type { BlockEntry, CommitBatch, RangeStore } from '../port/RangeStore.js';
import type { BlockHead, HeightRange, StoreMeta } from '../port/stored.js';
import { bothSporks } from '../records/book/changeBook.js';
import { rewoundRanges } from '../records/book/repairedBook.js';
import { RecordReader } from '../records/reading/RecordReader.js';
import { SCHEMA_VERSION } from '../records/schema.js';
import { StorageError } from '../StorageError.js';
import type { PostgresDatabase, PostgresDatabaseDependencies } from './connection/PostgresDatabase.js';
import type { Session, WriteSession } from './connection/Session.js';
import { PostgresRangeBook } from './ranges/PostgresRangeBook.js';
import { readStore } from './reading/loadStore.js';
import type { Loaded } from './reading/loadStore.js';
import { postgresSource } from './reading/postgresReader.js';
import { Partitions } from './tables/Partitions.js';
import { writeSporks } from './tables/readState.js';
import { Scripts } from './tables/Scripts.js';
import { BlockLine } from './writing/BlockLine.js';
import { Fence } from './writing/Fence.js';
import { forgetAbove } from './writing/changeRows.js';

export interface LiveRangeOptions {
  /** A store of another chain is refused. */
  readonly chainId: string;
  /**
   * Default false. True: for a command that only reads. It does not see later commits of others, does not wait for an
   * unreachable database, and may not lead.
   */
  readonly isReadOnly?: boolean;
  /** As `LevelIndexStoreOptions.forRewind`. */
  readonly forRewind?: boolean;
}

/**
 * What this process knows of the store without asking the database, the range that follows the head, and who writes that:
 * this process, or another one (`SharedStore`).
 */
export abstract class LiveRange extends RecordReader implements RangeStore {
  readonly ranges: PostgresRangeBook;
  readonly database: PostgresDatabase;
  /** Waits for an unreachable database; for a command, the error is passed on. */
  readonly session: Session;
  readonly changes = new Listeners();
  readonly #options: LiveRangeOptions;
  readonly #deps: PostgresDatabaseDependencies;
  readonly #parts: { readonly partitions: Partitions; readonly scripts: Scripts };
  /** The end of the last range in its coverage, the live one, is older than that of the line. */
  #known: Pick<Loaded, 'createdBy' | 'coverage' | 'sporks' | 'isDamaged'>;
  #rewinds = 0;
  /** `undefined` for a store that was never initialised. */
  #line: BlockLine | undefined;
  /** Set while this process leads. */
  #leading: { readonly fence: Fence; readonly replaced: AbortController } | undefined;
  /** Publications and reads of others' changes, one after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(
    options: LiveRangeOptions,
    database: PostgresDatabase,
    loaded: Loaded,
    dependencies: PostgresDatabaseDependencies,
  ) {
    const session: Session =
      options.isReadOnly === true
        ? database
        : { query: (statement) => database.persist(() => database.query(statement)) };
    super(postgresSource(session));
    this.session = session;
    this.database = database;
    this.#options = options;
    this.#deps = dependencies;
    this.#parts = { partitions: new Partitions({ database }), scripts: new Scripts() };
    this.#known = loaded;
    this.ranges = new PostgresRangeBook({
      ...this.#parts,
      database,
      reader: this,
      storeMeta: () => this.#initialised(),
      inTurn: (action) => this.inTurn(action),
      onPublished: (published) => this.adopt(published),
    });
    this.load(loaded);
  }

  coverage(): readonly HeightRange[] {
    const published = this.#published();
    const { from, to } = this.#live();
    return to < from ? published : [...published, { from, to }];
  }

  meta(): StoreMeta | undefined {
    const { createdBy, sporks } = this.#known;
    if (this.#line === undefined) return undefined;
    const { chainId } = this.#options;
    return { schemaVersion: SCHEMA_VERSION, chainId, firstHeight: this.#live().from, createdBy, sporks };
  }

  /** 0 for a store that was never initialised. */
  latestIndexedHeight(): number {
    return this.#line?.state.latestIndexedHeight ?? 0;
  }

  latestBlock(): BlockHead | undefined {
    return this.#line?.state.latestBlock;
  }

  rewinds(): number {
    return this.#rewinds;
  }

  blocksAboveWatermark(): readonly BlockHead[] {
    return this.#line?.blocksAboveWatermark() ?? [];
  }

  hasHeight(height: number): boolean {
    return this.#line?.hasHeight(height) === true;
  }

  stage(entry: BlockEntry): void {
    this.#line?.stage(entry);
  }

  isLeading(): boolean {
    return this.#leading !== undefined;
  }

  /** This and the methods below: see `SharedStore`. */
  onChanged(callback: () => void): () => void {
    return this.changes.add(callback);
  }

  async lead(): Promise<AbortSignal> {
    const { isReadOnly = false, forRewind = false } = this.#options;
    assert(!isReadOnly, 'the store was opened to be read');
    await this.follow();
    const { database } = this;
    const fence = await database.persist(() =>
      database.transaction((session) => Fence.take(database, session, { table: 'store' })),
    );
    const replaced = new AbortController();
    await this.inTurn(async () => {
      this.load(await readStore(database, { isTolerant: forRewind, before: this.latestBlock() }));
      this.#renew();
      this.#leading = { fence, replaced };
    });
    this.changes.tell();
    return replaced.signal;
  }

  async follow(): Promise<void> {
    if (this.#leading === undefined) return;
    await this.#line?.end();
    this.#leading = undefined;
    this.#renew();
  }

  /** This and the methods below: see `IndexStore`. */
  async initialise(meta: StoreMeta): Promise<void> {
    assert(this.meta() === undefined, 'the store is initialised already');
    assert(meta.chainId === this.#options.chainId, 'the meta record is of another chain');
    const { createdBy, firstHeight, sporks } = meta;
    const live = { from: firstHeight, to: firstHeight - 1 };
    await this.#write((fence) =>
      fence.write(async (session) => {
        await session.query({ text: 'UPDATE flow_store.store SET created_by = $1', values: [createdBy] });
        await session.query({
          text: 'INSERT INTO flow_store.coverage VALUES ($1, $2)',
          values: [live.from, live.to],
        });
        await writeSporks(session, sporks);
      }),
    );
    const nothing = { open: [], plans: [], latestBlock: undefined, above: new Map(), isDamaged: false };
    this.load({ ...nothing, isRewound: false, createdBy, coverage: [live], sporks });
  }

  async commit(batch: CommitBatch): Promise<void> {
    const line = this.#initialisedLine();
    const before = line.state.latestIndexedHeight;
    const sporks = await this.#write(() =>
      line.commit(batch, {
        write: async (session, { latestIndexedHeight, meta }) => {
          if (batch.spork !== undefined) await writeSporks(session, [batch.spork]);
          if (latestIndexedHeight > before) moveWatermark(session, before, latestIndexedHeight);
          return meta.sporks;
        },
      }),
    );
    if (batch.spork !== undefined) this.adopt({ coverage: this.#known.coverage, sporks });
  }

  /** Damaged records above the target are removed as well. */
  async rewind(height: number): Promise<void> {
    const { clock, logger } = this.#deps;
    const { database } = this;
    const line = this.#initialisedLine();
    const { above, latestIndexedHeight } = line.state;
    const live = this.#live();
    const after = rewoundRanges({ published: this.#published(), live }, height);
    if (Math.max(latestIndexedHeight, ...above.keys()) <= height && !this.#known.isDamaged) return;
    if (after.live.from !== live.from) await this.ranges.endRuns();
    const startedAtMs = clock.monotonic();
    line.discardStaged();
    await this.inTurn(async () => {
      await this.#write((fence) => line.alone(() => fence.write((session) => forgetAbove(session, height))));
      this.load(await readStore(database, { isTolerant: false, before: this.latestBlock() }));
    });
    logger.info({ height, durationMs: clock.monotonic() - startedAtMs }, 'rewind done');
  }

  /** Takes over everything that was read from the database. */
  load(loaded: Loaded): void {
    this.#known = loaded;
    if (loaded.isRewound) this.#rewinds += 1;
    this.ranges.load(loaded);
    const live = loaded.coverage.at(-1);
    if (live === undefined) return;
    const { latestBlock, above } = loaded;
    const state = { latestIndexedHeight: live.to, latestBlock, above };
    if (this.#line !== undefined) this.#line.change(state);
    else this.#line = this.#lineAt(state);
  }

  /**
   * Takes over what has joined the coverage: a range of this process, or, in the leader, what others did. It knows the end of
   * the live range, and its sporks, better. Plans and open ranges that are left out have not changed.
   */
  adopt({
    coverage,
    sporks,
    ...facts
  }: Pick<Loaded, 'coverage' | 'sporks'> & Partial<Pick<Loaded, 'open' | 'plans'>>): void {
    if (coverage.length === 0) return;
    this.#known = { ...this.#known, coverage, sporks: bothSporks(this.#known.sporks, sporks) };
    this.ranges.load(facts);
  }

  /** The fence of this process, which must lead. */
  fence(): Fence {
    return this.#current().fence;
  }

  /** Takes note of the epoch of the leader, as the database has it. */
  noticeEpoch(epoch: number): void {
    if (this.#leading !== undefined && epoch > this.#leading.fence.epoch)
      this.#leading.replaced.abort(replacement());
  }

  inTurn<T>(action: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(action, action);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  /** Ends all writing, and waits for the writes under way. */
  async endLines(): Promise<void> {
    await this.#line?.end();
    await this.ranges.endRuns();
  }

  /** The live range, which may be empty. */
  #live(): HeightRange {
    const live = this.#known.coverage.at(-1);
    return live === undefined ? { from: 0, to: -1 } : { from: live.from, to: this.latestIndexedHeight() };
  }

  /** The ranges below the live one, ascending. */
  #published(): readonly HeightRange[] {
    return this.#known.coverage.slice(0, -1);
  }

  #initialised(): StoreMeta {
    const meta = this.meta();
    assert(meta !== undefined, 'the store is not initialised');
    return meta;
  }

  #initialisedLine(): BlockLine {
    assert(this.#line !== undefined, 'the store is not initialised');
    return this.#line;
  }

  #lineAt(state: BlockLine['state']): BlockLine {
    return new BlockLine(state, {
      ...this.#parts,
      fence: () => this.fence(),
      meta: () => this.#initialised(),
    });
  }

  /** Forgets staged blocks, and a write that failed. */
  #renew(): void {
    if (this.#line !== undefined) this.#line = this.#lineAt(this.#line.state);
  }

  /** Expected errors: those of `write`. */
  async #write<T>(write: (fence: Fence) => Promise<T>): Promise<T> {
    const { fence, replaced } = this.#current();
    try {
      return await write(fence);
    } catch (error) {
      if (error instanceof StorageError && error.kind === 'locked') replaced.abort(replacement());
      throw error;
    }
  }

  #current() {
    assert(this.#leading !== undefined, 'this process does not lead');
    return this.#leading;
  }
}

function replacement(): AbortError {
  return new AbortError('another process leads now');
}

/** The live range is found by its upper end, which only this writer moves; its lower end may have moved since. */
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
