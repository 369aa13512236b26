import { ok as assert } from 'node:assert/strict';
import { sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { putAccounts } from '../accounts/accountEntries.js';
import { BlockEntryWriter } from '../records/BlockEntryWriter.js';
import type { Put } from '../records/BlockEntryWriter.js';
import type { Database, WriteBatch } from '../records/Database.js';
import type { BlockEntry, StoreMeta } from '../IndexStore.js';
import { encodeMeta, encodeProgress } from '../records/codecs.js';
import { META_KEY, PROGRESS_KEY, seal } from '../records/schema.js';

/**
 * Bytes put into a batch before the event loop gets a turn, so that readers do not wait for a group of many blocks. A
 * group at the tip, a block or two, is prepared in one go.
 */
const TURN_BYTES = 128 * 1024;

/** Entries that are in a batch already, ahead of the commit that will carry them. */
interface Staged {
  readonly write: WriteBatch;
  readonly entries: Set<BlockEntry>;
}

/** What is true once the batch is on disk. */
export interface Outcome {
  readonly latestIndexedHeight: number;
  /** `undefined`: the meta record stays what it is. */
  readonly meta: StoreMeta | undefined;
}

export interface LevelIndexWriterDependencies {
  readonly clock: Clock;
  readonly database: Database;
  /** True: every commit also writes account entries. Constant for the life of a store. */
  readonly hasAccounts: () => boolean;
}

/** Writes to the database of a store: one batch at a time, and nothing after a failed write. */
export class LevelIndexWriter {
  readonly #database: Database;
  readonly #clock: Clock;
  readonly #hasAccounts: () => boolean;
  readonly #entryWriter = new BlockEntryWriter();
  /** The beginning of the next commit. */
  #staged: Staged | undefined;
  /** The write under way. */
  #writing: Promise<void> | undefined;
  /** The failed write: what is on disk is unknown until the next open, so nothing is written on top of it. */
  #failure: { readonly error: unknown } | undefined;
  #closed = false;

  constructor({ clock, database, hasAccounts }: LevelIndexWriterDependencies) {
    this.#clock = clock;
    this.#database = database;
    this.#hasAccounts = hasAccounts;
  }

  /** As `IndexStore.stage`. */
  stage(entry: BlockEntry): void {
    if (this.#failure !== undefined || this.#closed) return;
    const { entries, write } = (this.#staged ??= { write: this.#database.batch(), entries: new Set() });
    if (entries.has(entry)) return;
    entries.add(entry);
    this.#put(entry, (key, value) => write.put(key, value));
  }

  discardStaged(): void {
    this.#staged?.write.discard();
    this.#staged = undefined;
  }

  /** Blocks, watermark and, when it changed, the meta record, in one batch. Rejects as `alone`. */
  async commit(blocks: readonly BlockEntry[], { latestIndexedHeight, meta }: Outcome): Promise<void> {
    const staged = this.#takeStaged(blocks);
    await this.alone(async () => {
      const write = staged?.write ?? this.#database.batch();
      const put: Put = (key, value) => write.put(key, value);
      let turnBytes = 0;
      for (const entry of blocks) {
        if (staged?.entries.has(entry) === true) continue;
        if (turnBytes >= TURN_BYTES) {
          turnBytes = 0;
          await sleep(this.#clock, 0);
        }
        this.#put(entry, put);
        for (const { encoded } of entry.collections) turnBytes += encoded.byteLength;
      }
      put(PROGRESS_KEY, seal(PROGRESS_KEY, encodeProgress(latestIndexedHeight)));
      if (meta !== undefined) put(META_KEY, seal(META_KEY, encodeMeta(meta)));
      await write.write();
    });
  }

  /** Runs an exclusive write. Rejects with its error, and from then on always with that one. */
  async alone(action: () => Promise<void>): Promise<void> {
    this.assertIdle();
    if (this.#failure !== undefined) throw this.#failure.error;
    try {
      this.#writing = action();
      await this.#writing;
    } catch (error) {
      this.#failure = { error };
      throw error;
    } finally {
      this.#writing = undefined;
    }
  }

  /** Runs a write that touches nothing that exclusive writes touch, and may run beside them. Rejects as `alone`. */
  async beside(action: () => Promise<void>): Promise<void> {
    assert(!this.#closed, 'the store is closed');
    if (this.#failure !== undefined) throw this.#failure.error;
    try {
      await action();
    } catch (error) {
      this.#failure ??= { error };
      throw error;
    }
  }

  /** Throws while a write is under way, and after the end. */
  assertIdle(): void {
    assert(this.#writing === undefined, 'a write is under way already');
    assert(!this.#closed, 'the store is closed');
  }

  /** Refuses further writes and waits for the current one. */
  async end(): Promise<void> {
    this.#closed = true;
    // Its caller gets the error; here it only must not be interrupted.
    await this.#writing?.catch(() => undefined);
  }

  #put(entry: BlockEntry, put: Put): void {
    this.#entryWriter.put(entry, put);
    if (this.#hasAccounts()) putAccounts(entry.block.height, entry.collections, put);
  }

  /** What was staged, unless it holds more than this batch carries. */
  #takeStaged(blocks: readonly BlockEntry[]): Staged | undefined {
    const staged = this.#staged;
    if (staged === undefined) return undefined;
    const carried = new Set(blocks);
    if ([...staged.entries].every((entry) => carried.has(entry))) {
      this.#staged = undefined;
      return staged;
    }
    this.discardStaged();
    return undefined;
  }
}
