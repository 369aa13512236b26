import { ok as assert } from 'node:assert/strict';
import { sleep } from '../../../runtime/index.js';
import type { Clock } from '../../../runtime/index.js';
import { putAccounts } from '../../accounts/accountEntries.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import { BlockEntryWriter } from '../../records/blocks/BlockEntryWriter.js';
import type { Put } from '../../records/blocks/BlockEntryWriter.js';
import { putChanges } from '../../records/book/bookRecords.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import type { Database, WriteBatch } from '../../records/Database.js';
import { ChangeGroup, WaitingChange } from './ChangeGroup.js';
import type { Change } from './ChangeGroup.js';

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

/** A change of the live range, and the batch with its blocks. */
interface LiveChange {
  readonly waiting: WaitingChange;
  readonly prepared: Promise<WriteBatch>;
}

/** Which range writes: the live one, which goes first, or another. */
type Line = 'live' | 'range';

/**
 * Owns the durable book of an open store, and writes its changes: one at a time, and nothing after a failed write. Group
 * commit: while one write is under way, further changes, of whatever range, join the next one.
 */
export class CommitQueue {
  readonly database: Database;
  readonly #clock: Clock;
  readonly #hasAccounts: () => boolean;
  readonly #onChanged: () => void;
  readonly #entryWriter = new BlockEntryWriter();
  #book: StoreBook | undefined;
  /** The changes that the next write carries. */
  #next = new ChangeGroup(this);
  #live: LiveChange | undefined;
  /** Ends when all changes so far have joined a group: at most one per range waits for that. */
  #joining: Promise<void> = Promise.resolve();
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

  /**
   * `hasAccounts`: every commit also writes account entries; constant for the life of a store. `onChanged`: a new book is
   * durable.
   */
  constructor(
    book: StoreBook | undefined,
    {
      clock,
      database,
      hasAccounts,
      onChanged,
    }: {
      readonly clock: Clock;
      readonly database: Database;
      readonly hasAccounts: () => boolean;
      readonly onChanged: () => void;
    },
  ) {
    this.#book = book;
    this.#clock = clock;
    this.database = database;
    this.#hasAccounts = hasAccounts;
    this.#onChanged = onChanged;
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
    this.#onChanged();
  }

  /** Like `RangeStore.stage`, for the live range. */
  stage(entry: BlockEntry): void {
    if (this.#failure !== undefined || this.#closed) return;
    const { entries, write } = (this.#staged ??= { write: this.database.batch(), entries: new Set() });
    if (entries.has(entry)) return;
    entries.add(entry);
    this.#put(entry, (key, value) => write.put(key, value));
  }

  discardStaged(): void {
    this.#staged?.write[Symbol.dispose]();
    this.#staged = undefined;
  }

  /**
   * Writes the blocks and the book that `change` returns, together with other changes, as soon as a write can carry
   * them; then the new book counts. Rejects with the error of `change`, and then nothing of it is written, and like
   * `write`.
   */
  async record(line: Line, change: Change, blocks: readonly BlockEntry[] = []): Promise<void> {
    const waiting = new WaitingChange(change, blocks);
    // The caller gets the error from the await below, which may come later.
    waiting.done.catch(() => undefined);
    if (line === 'live') await this.#recordLive(waiting);
    else await this.#recordRange(waiting);
    await waiting.done;
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

  async #recordLive(waiting: WaitingChange): Promise<void> {
    const prepared = this.#prepare(waiting.blocks);
    prepared.catch(() => undefined);
    const live = { waiting, prepared };
    this.#live = live;
    try {
      // The turn of a range may have written it already.
      await this.inTurn('live', async () => {
        if (this.#live === live) await this.#writeNext();
      });
    } finally {
      if (this.#live === live) {
        this.#live = undefined;
        prepared.then((batch) => batch[Symbol.dispose]()).catch(() => undefined);
      }
    }
  }

  async #recordRange(waiting: WaitingChange): Promise<void> {
    const joining = this.#joining.then(async () => {
      while (this.#next.isFull) await this.#next.closed;
      await this.#next.add(waiting);
    });
    this.#joining = joining.catch(() => undefined);
    await joining;
    // The turn of another range may write it first.
    this.inTurn('range', () => this.#writeNext()).catch((error: unknown) => this.#abandon(error));
  }

  /** Call it within a turn. Does not reject: the waiting changes do. */
  async #writeNext(): Promise<void> {
    const live = this.#live;
    const isLiveAlone = live !== undefined && this.#next.members.length === 0;
    const group = isLiveAlone ? new ChangeGroup(this) : this.#next;
    if (live === undefined && group.members.length === 0) return;
    if (!isLiveAlone) this.#next = new ChangeGroup(this);
    this.#live = undefined;
    try {
      await group.close();
      if (live !== undefined) await group.addLive(live.waiting, await live.prepared);
      await this.#writeGroup(group);
    } catch (error) {
      live?.waiting.reject(error);
      for (const member of group.members) member.reject(error);
    } finally {
      group[Symbol.dispose]();
    }
  }

  async #writeGroup(group: ChangeGroup): Promise<void> {
    const before = this.initialised();
    const { after, accepted, batch, changes } = await group.apply(before);
    if (after !== before) {
      putChanges(before, after, batch);
      for (const { putAlso } of changes)
        putAlso?.(
          (key, value) => batch.put(key, value),
          (key) => batch.del(key),
        );
      await this.write(() => batch.write());
      this.replace(after);
    }
    for (const { onDurable } of changes) onDurable?.();
    for (const { resolve } of accepted) resolve();
  }

  /** Rejects the changes that wait for a turn, when there will be none. */
  #abandon(error: unknown): void {
    const group = this.#next;
    this.#next = new ChangeGroup(this);
    void group.close().then(() => group[Symbol.dispose]());
    for (const member of group.members) member.reject(error);
  }

  /** A batch with the blocks of the live range's next commit, most of which may be staged already. */
  async #prepare(blocks: readonly BlockEntry[]): Promise<WriteBatch> {
    const staged = this.#takeStaged(blocks);
    const write = staged?.write ?? this.database.batch();
    const left = staged === undefined ? blocks : blocks.filter((entry) => !staged.entries.has(entry));
    try {
      await this.fill(write, left);
      return write;
    } catch (error) {
      write[Symbol.dispose]();
      throw error;
    }
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
