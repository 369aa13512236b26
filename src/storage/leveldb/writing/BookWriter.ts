import { ok as assert } from 'node:assert/strict';
import { AbortError, sleep, type Clock } from '../../../runtime/index.js';
import { putAccounts } from '../../accounts/accountEntries.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import { isLive } from '../../records/accountCoverage.js';
import { BlockEntryWriter, type Put } from '../../records/blocks/BlockEntryWriter.js';
import { putChanges } from '../../records/book/bookRecords.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import type { Database, Entry, WriteBatch } from '../../records/Database.js';

/**
 * Bytes to put into a batch before yielding to the event loop, so that readers do not wait for a group of many blocks. A
 * group at the tip, a block or two, is prepared in one go.
 */
const TURN_BYTES = 128 * 1024;

/** The result of a change. */
export interface Changed {
  readonly after: StoreBook;
  /** Further entries of the same write, and keys of those that it deletes. */
  readonly put?: readonly Entry[];
  readonly del?: readonly Buffer[];
}

/** Changes the current book; `undefined`: no change. */
export type Change = (book: StoreBook) => Changed | undefined | Promise<Changed | undefined>;

/** A batch, and the blocks whose entries are in it already, before the commit that will carry them. */
interface Staged {
  readonly batch: WriteBatch;
  readonly entries: Set<BlockEntry>;
}

/** Which range writes: the live one, which goes first, or another. */
type Line = 'live' | 'range';

/**
 * Owns the durable book of an open store, and writes its changes: one at a time, those of the live range first, and nothing after
 * a failed write.
 */
export class BookWriter {
  readonly database: Database;
  readonly #parts: ConstructorParameters<typeof BookWriter>[1];
  readonly #entryWriter = new BlockEntryWriter();
  #book: StoreBook | undefined;
  /** Waiting writes: that of the live range first, the others in the order of their calls. */
  readonly #waiting: { readonly line: Line; readonly run: () => Promise<void> }[] = [];
  /** All writes, one after the other. Does not reject. */
  #turns: Promise<unknown> = Promise.resolve();
  /** The beginning of the next commit of the live range. */
  #staged: Staged | undefined;
  /** Actions that make several writes. */
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
      /** A write failed: nothing more is written. Called once. */
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
    if (this.#failure === undefined && !this.#closed) this.#put(entry, (this.#staged ??= this.#begun()));
  }

  discardStaged(): void {
    this.#staged?.batch[Symbol.dispose]();
    this.#staged = undefined;
  }

  /**
   * Writes the blocks, and the book that `change` returns, in one write; then the new book counts. Rejects after a write that
   * failed, and with the error of `change`, in which case nothing is written.
   */
  async record(line: Line, change: Change, blocks: readonly BlockEntry[] = []): Promise<void> {
    const staged = line === 'live' ? this.#takeStaged(blocks) : undefined;
    await this.#inTurn(line, async () => {
      const filled = staged ?? this.#begun();
      using batch = filled.batch;
      this.#assertSound();
      const before = this.initialised();
      const changed = await change(before);
      if (changed === undefined) return;
      const { after, put = [], del = [] } = changed;
      let turnBytes = 0;
      for (const entry of blocks) {
        if (turnBytes >= TURN_BYTES) {
          turnBytes = 0;
          await sleep(this.#parts.clock, 0);
        }
        turnBytes += this.#put(entry, filled);
      }
      putChanges(before, after, batch);
      for (const entry of put) batch.put(...entry);
      for (const key of del) batch.del(key);
      await this.#write(() => batch.write());
      this.replace(after);
    });
  }

  /** Runs a separate write, of any length. Rejects with its error, and after a write that failed. */
  alone(action: () => Promise<void>): Promise<void> {
    return this.#inTurn('range', async () => {
      this.#assertSound();
      await this.#write(action);
    });
  }

  /** Runs an action of several reads and writes, such as a removal. `end` refuses its next write, and waits for it. */
  async inSteps(action: () => Promise<void>): Promise<void> {
    this.#assertOpen();
    const running = action();
    this.#running.add(running);
    await running.finally(() => this.#running.delete(running));
  }

  /** Refuses further writes and waits for those already requested. The next open finishes what was cut short. */
  async end(): Promise<void> {
    this.#closed = true;
    this.discardStaged();
    await this.#turns;
    await Promise.allSettled(this.#running);
  }

  /** Runs an action when its turn comes. Rejects with its error. */
  async #inTurn(line: Line, action: () => Promise<void>): Promise<void> {
    this.#assertOpen();
    const isLive = line === 'live';
    assert(!isLive || this.#waiting[0]?.line !== 'live', 'a write is already under way');
    await new Promise<void>((resolve, reject) => {
      const waiting = { line, run: () => action().then(resolve, reject) };
      if (isLive) this.#waiting.unshift(waiting);
      else this.#waiting.push(waiting);
      this.#turns = this.#turns.then(() => this.#waiting.shift()?.run());
    });
  }

  #assertOpen(): void {
    if (this.#closed) throw new AbortError('the store is closed');
  }

  /** Throws the error of the write that failed. */
  #assertSound(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** Runs a write; after one that fails there is no other. */
  async #write(action: () => Promise<void>): Promise<void> {
    try {
      await action();
    } catch (error) {
      this.#failure = { error };
      this.#parts.onFailed(error);
      throw error;
    }
  }

  #begun(): Staged {
    return { batch: this.database.batch(), entries: new Set() };
  }

  /** Puts the entries of a block into a batch, unless they are there. Returns the bytes of its collections that were put. */
  #put(entry: BlockEntry, { batch, entries }: Staged): number {
    if (entries.has(entry)) return 0;
    entries.add(entry);
    const put: Put = (key, value) => batch.put(key, value);
    const { block, collections } = entry;
    this.#entryWriter.put(entry, put);
    if (isLive(this.#book?.accounts)) putAccounts(block.height, collections, put);
    return collections.reduce((sum, { encoded }) => sum + encoded.byteLength, 0);
  }

  /** The staged entries; discards them, and returns `undefined`, if these blocks do not include all of them. */
  #takeStaged(blocks: readonly BlockEntry[]): Staged | undefined {
    const carried = new Set(blocks);
    for (const entry of this.#staged?.entries ?? []) if (!carried.has(entry)) this.discardStaged();
    const staged = this.#staged;
    this.#staged = undefined;
    return staged;
  }
}
