import { ok as assert } from 'node:assert/strict';
import { sleep } from '../../../runtime/index.js';
import type { Clock } from '../../../runtime/index.js';
import { putAccounts } from '../../accounts/accountEntries.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import { BlockEntryWriter } from '../../records/blocks/BlockEntryWriter.js';
import type { Put } from '../../records/blocks/BlockEntryWriter.js';
import type { Database, WriteBatch } from '../../records/Database.js';

/**
 * Bytes to put into a batch before yielding to the event loop, so that readers do not wait for a group of many blocks. A
 * group at the tip, a block or two, is prepared in one go.
 */
const TURN_BYTES = 128 * 1024;

/** Entries that are in a batch already, before the commit that will carry them. */
interface Staged {
  readonly write: WriteBatch;
  readonly entries: Set<BlockEntry>;
}

/** Which range writes: the live one, which goes first, or another. */
export type Line = 'live' | 'range';

export interface LevelIndexWriterDependencies {
  readonly clock: Clock;
  readonly database: Database;
  /** True: every commit also writes account entries. Constant for the life of a store. */
  readonly hasAccounts: () => boolean;
}

/** Writes to the database of a store: one line at a time, and nothing after a failed write. */
export class LevelIndexWriter {
  readonly #database: Database;
  readonly #clock: Clock;
  readonly #hasAccounts: () => boolean;
  readonly #entryWriter = new BlockEntryWriter();
  /** The beginning of the next commit of the live range. */
  #staged: Staged | undefined;
  /** The turn under way. */
  #turn: Promise<unknown> | undefined;
  /** The live range has its turn, or waits for it. */
  #isLiveBusy = false;
  /** Waiting for a turn: the live range, and the others in order of arrival, at most one per range. */
  #waitingLive: (() => void) | undefined;
  readonly #waiting: (() => void)[] = [];
  /** The failed write: what is on disk is unknown until the next open, so nothing is written on top of it. */
  #failure: { readonly error: unknown } | undefined;
  #closed = false;

  constructor({ clock, database, hasAccounts }: LevelIndexWriterDependencies) {
    this.#clock = clock;
    this.#database = database;
    this.#hasAccounts = hasAccounts;
  }

  /** Like `RangeStore.stage`, for the live range. */
  stage(entry: BlockEntry): void {
    if (this.#failure !== undefined || this.#closed) return;
    const { entries, write } = (this.#staged ??= { write: this.#database.batch(), entries: new Set() });
    if (entries.has(entry)) return;
    entries.add(entry);
    this.#put(entry, (key, value) => write.put(key, value));
  }

  discardStaged(): void {
    this.#staged?.write[Symbol.dispose]();
    this.#staged = undefined;
  }

  /** A batch with the blocks of the live range's next commit, most of which may be staged already. */
  async prepare(blocks: readonly BlockEntry[]): Promise<WriteBatch> {
    const staged = this.#takeStaged(blocks);
    const write = staged?.write ?? this.#database.batch();
    const left = staged === undefined ? blocks : blocks.filter((entry) => !staged.entries.has(entry));
    try {
      await this.fill(write, left);
      return write;
    } catch (error) {
      write[Symbol.dispose]();
      throw error;
    }
  }

  /** Puts the entries of these blocks into a batch, and yields to the event loop now and then. */
  async fill(write: WriteBatch, blocks: readonly BlockEntry[]): Promise<void> {
    const put: Put = (key, value) => write.put(key, value);
    let turnBytes = 0;
    for (const entry of blocks) {
      if (turnBytes >= TURN_BYTES) {
        turnBytes = 0;
        await sleep(this.#clock, 0);
      }
      this.#put(entry, put);
      for (const { encoded } of entry.collections) turnBytes += encoded.byteLength;
    }
  }

  /**
   * Waits for the line's turn and runs an action while no other line writes. The live range goes first. Rejects with
   * the error of the action.
   */
  async inTurn<T>(line: Line, action: () => Promise<T>): Promise<T> {
    if (line === 'live') this.assertIdle();
    this.#isLiveBusy ||= line === 'live';
    try {
      while (this.#turn !== undefined) await this.#wait(line);
      assert(!this.#closed, 'the store is closed');
      this.assertSound();
      const turn = action();
      this.#turn = turn;
      return await turn;
    } finally {
      if (line === 'live') this.#isLiveBusy = false;
      this.#turn = undefined;
      this.#callNext();
    }
  }

  /** Runs a write, within a turn. Rejects with its error, and from then on always with that error. */
  async write(action: () => Promise<void>): Promise<void> {
    this.assertSound();
    try {
      await action();
    } catch (error) {
      this.#failure ??= { error };
      throw error;
    }
  }

  /** Runs one write, of any length, as a turn of the live range. Rejects like `write`. */
  alone(action: () => Promise<void>): Promise<void> {
    return this.inTurn('live', () => this.write(action));
  }

  /** Runs a write beside others, which must not touch the same entries. Rejects like `write`. */
  async beside(action: () => Promise<void>): Promise<void> {
    assert(!this.#closed, 'the store is closed');
    await this.write(action);
  }

  /** Throws while a write of the live range is under way, and after `end`. */
  assertIdle(): void {
    assert(!this.#isLiveBusy, 'a write is already under way');
    assert(!this.#closed, 'the store is closed');
  }

  /** Throws the error of the write that failed. */
  assertSound(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** Refuses further writes and waits for the current one. */
  async end(): Promise<void> {
    this.#closed = true;
    this.discardStaged();
    // Its caller gets the error; here it only has to finish.
    await this.#turn?.catch(() => undefined);
  }

  #wait(line: Line): Promise<void> {
    return new Promise((resolve) => {
      if (line === 'live') this.#waitingLive = resolve;
      else this.#waiting.push(resolve);
    });
  }

  #callNext(): void {
    const next = this.#waitingLive ?? this.#waiting.shift();
    this.#waitingLive = undefined;
    next?.();
  }

  #put(entry: BlockEntry, put: Put): void {
    this.#entryWriter.put(entry, put);
    if (this.#hasAccounts()) putAccounts(entry.block.height, entry.collections, put);
  }

  /** The staged entries; discards them, and returns `undefined`, if these blocks do not include all of them. */
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
