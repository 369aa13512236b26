import { ok as assert } from 'node:assert/strict';
import { AbortError, sleep, type Clock } from '../../../runtime/index.js';
import { putAccounts } from '../../accounts/accountEntries.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import type { BlockHead } from '../../port/stored.js';
import { isLive } from '../../records/accountCoverage.js';
import { BlockEntryWriter, type Put } from '../../records/blocks/BlockEntryWriter.js';
import { readHead } from '../../records/blocks/readBlocks.js';
import { putChanges } from '../../records/book/bookRecords.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import type { Database, Entry, WriteBatch } from '../../records/Database.js';

/**
 * Bytes to put into a batch before yielding to the event loop, so that readers do not wait for a group of many blocks. A
 * group at the tip, a block or two, is prepared in one go.
 */
const TURN_BYTES = 128 * 1024;
/**
 * With this many bytes of collections a write is full, and no further range joins it: the live range never waits long for
 * a write that it is not part of.
 */
const WRITE_FULL_BYTES = 2 * 1024 * 1024;

/** The block of a height in the book: durable, or carried by the same write. Expected errors: `StorageError`. */
export type HeadAt = (height: number) => Promise<BlockHead>;

export interface Changed {
  readonly after: StoreBook;
  /** Further entries of the same write, and keys of those that it deletes. */
  readonly put?: readonly Entry[];
  readonly del?: readonly Buffer[];
}

/** Returns the new book; earlier changes of the same write are in the given one. `undefined`: no change. */
export type Change = (book: StoreBook, headAt: HeadAt) => Changed | undefined | Promise<Changed | undefined>;

/** Entries that are in a batch already, before the commit that will carry them. */
interface Staged {
  readonly batch: WriteBatch;
  readonly entries: Set<BlockEntry>;
}

/** A change that waits for a write, which it may share with others. */
interface Waiting {
  readonly change: Change;
  readonly isLive: boolean;
  readonly blocks: readonly BlockEntry[];
  /** Has some of the blocks. */
  readonly staged: Staged | undefined;
  /** Call it when everything is durable. */
  readonly resolve: () => void;
  /** With the error of the change, or that of the write. */
  readonly reject: (error: unknown) => void;
}

/** Which range writes: the live one, which goes first, or another. */
type Line = 'live' | 'range';

/**
 * Owns the durable book of an open store, and writes its changes: one at a time, and nothing after a failed write. While one
 * write is under way, further changes, of whatever range, join the next one.
 */
export class BookWriter {
  readonly database: Database;
  readonly #parts: ConstructorParameters<typeof BookWriter>[1];
  readonly #entryWriter = new BlockEntryWriter();
  #book: StoreBook | undefined;
  /** That of the live range, and those of others as they came, at most one per range. */
  readonly #waiting: Waiting[] = [];
  /** The beginning of the next commit of the live range. */
  #staged: Staged | undefined;
  /** All writes, one after the other. Does not reject. */
  #turns: Promise<unknown> = Promise.resolve();
  /** What makes several of them. */
  readonly #running = new Set<Promise<void>>();
  /** The failed write: what is on disk is unknown until the next open, so nothing is written on top of it. */
  #failure: { readonly error: unknown } | undefined;
  #closed = false;

  constructor(
    book: StoreBook | undefined,
    parts: {
      readonly clock: Clock;
      readonly database: Database;
      /** A new book is durable. */
      readonly onChanged: () => void;
      /** A write failed: nothing is written any more. Called once. */
      readonly onFailed: (error: unknown) => void;
    },
  ) {
    this.#book = book;
    this.#parts = parts;
    this.database = parts.database;
  }

  /** `undefined` for a store that was never initialised. */
  book(): StoreBook | undefined {
    return this.#book;
  }

  initialised(): StoreBook {
    assert(this.#book !== undefined, 'the store is not initialised');
    return this.#book;
  }

  /** Takes over a book whose records were written elsewhere. */
  replace(book: StoreBook): void {
    this.#book = book;
    this.#parts.onChanged();
  }

  /** Like `RangeStore.stage`, for the live range. */
  stage(entry: BlockEntry): void {
    if (this.#failure !== undefined || this.#closed) return;
    const { entries, batch } = (this.#staged ??= { batch: this.database.batch(), entries: new Set() });
    if (entries.has(entry)) return;
    entries.add(entry);
    this.#put(entry, (key, value) => batch.put(key, value));
  }

  discardStaged(): void {
    this.#staged?.batch[Symbol.dispose]();
    this.#staged = undefined;
  }

  /**
   * Writes the blocks and the book that `change` returns, together with other changes, as soon as a write can carry
   * them; then the new book counts. Rejects with the error of `change`, and then nothing of it is written, and after a
   * write that failed.
   */
  async record(line: Line, change: Change, blocks: readonly BlockEntry[] = []): Promise<void> {
    this.#assertOpen();
    const isLive = line === 'live';
    assert(!isLive || this.#waiting[0]?.isLive !== true, 'a write is already under way');
    const staged = isLive ? this.#takeStaged(blocks) : undefined;
    await new Promise<void>((resolve, reject) => {
      const waiting = { change, isLive, blocks, staged, resolve, reject };
      if (isLive) this.#waiting.unshift(waiting);
      else this.#waiting.push(waiting);
      this.#turns = this.#turns.then(() => this.#writeNext());
    });
  }

  /** Runs a write of its own, of any length. Rejects with its error, and after a write that failed. */
  async alone(action: () => Promise<void>): Promise<void> {
    this.#assertOpen();
    const turn = this.#turns.then(async () => {
      // What waits goes first: the live range may be part of it.
      await this.#writeNext();
      await this.#write(action);
    });
    this.#turns = turn.catch(() => undefined);
    await turn;
  }

  /** Runs what reads and writes in turns, such as a removal: once the store closes, its next write is refused, and it is waited for. */
  async inSteps(action: () => Promise<void>): Promise<void> {
    const running = action();
    this.#running.add(running);
    await running.finally(() => this.#running.delete(running));
  }

  /** Runs a write. Rejects with its error, and from then on always with that error. */
  async #write(action: () => Promise<void>): Promise<void> {
    this.#assertSound();
    try {
      await action();
    } catch (error) {
      if (this.#failure === undefined) {
        this.#failure = { error };
        this.#parts.onFailed(error);
      }
      throw error;
    }
  }

  #assertOpen(): void {
    if (this.#closed) throw new AbortError('the store is closed');
  }

  /** Throws the error of the write that failed. */
  #assertSound(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** Refuses further writes and waits for what was asked for. The next open finishes what that cuts short. */
  async end(): Promise<void> {
    this.#closed = true;
    this.discardStaged();
    await this.#turns;
    await Promise.allSettled(this.#running);
  }

  /** The next write of changes, if any wait: that of the live range, and of others until they are enough. Does not reject: they do. */
  async #writeNext(): Promise<void> {
    const group: Waiting[] = [];
    for (let bytes = 0; bytes < WRITE_FULL_BYTES;) {
      const next = this.#waiting.shift();
      if (next === undefined) break;
      group.push(next);
      if (next.isLive) continue;
      for (const { collections } of next.blocks)
        for (const { encoded } of collections) bytes += encoded.length;
    }
    if (group.length === 0) return;
    try {
      this.#assertSound();
      await this.#writeGroup(group);
      for (const { resolve } of group) resolve();
    } catch (error) {
      for (const { reject } of group) reject(error);
    } finally {
      for (const { staged } of group) staged?.batch[Symbol.dispose]();
    }
  }

  /** Applies the changes in order. One that throws is rejected, and nothing of it is written. */
  async #writeGroup(group: readonly Waiting[]): Promise<void> {
    const before = this.initialised();
    const heads = new Map<number, BlockHead>();
    const headAt: HeadAt = async (height) => heads.get(height) ?? readHead(this.database, height);
    const accepted: Waiting[] = [];
    const changes: Changed[] = [];
    let after = before;
    for (const waiting of group) {
      try {
        const changed = await waiting.change(after, headAt);
        accepted.push(waiting);
        if (changed === undefined) continue;
        after = changed.after;
        changes.push(changed);
        for (const { block } of waiting.blocks) heads.set(block.height, block);
      } catch (error) {
        waiting.reject(error);
      }
    }
    if (after !== before) {
      using batch =
        accepted.find(({ staged }) => staged !== undefined)?.staged?.batch ?? this.database.batch();
      for (const { blocks, staged } of accepted) await this.#fill(batch, blocks, staged?.entries);
      putChanges(before, after, batch);
      for (const { put = [], del = [] } of changes) {
        for (const entry of put) batch.put(...entry);
        for (const key of del) batch.del(key);
      }
      await this.#write(() => batch.write());
      this.replace(after);
    }
  }

  /** Puts the entries of these blocks into a batch, but for those that are there, and yields to the event loop now and then. */
  async #fill(
    batch: WriteBatch,
    blocks: readonly BlockEntry[],
    there: ReadonlySet<BlockEntry> | undefined,
  ): Promise<void> {
    const put: Put = (key, value) => batch.put(key, value);
    let turnBytes = 0;
    for (const entry of blocks) {
      if (there?.has(entry) === true) continue;
      if (turnBytes >= TURN_BYTES) {
        turnBytes = 0;
        await sleep(this.#parts.clock, 0);
      }
      this.#put(entry, put);
      for (const { encoded } of entry.collections) turnBytes += encoded.byteLength;
    }
  }

  #put(entry: BlockEntry, put: Put): void {
    this.#entryWriter.put(entry, put);
    if (isLive(this.#book?.accounts)) putAccounts(entry.block.height, entry.collections, put);
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
