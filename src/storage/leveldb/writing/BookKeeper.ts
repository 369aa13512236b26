import { ok as assert } from 'node:assert/strict';
import type { BlockEntry } from '../../port/RangeStore.js';
import { putChanges } from '../../records/book/bookRecords.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import type { Database, WriteBatch } from '../../records/Database.js';
import { ChangeGroup, WaitingChange } from './ChangeGroup.js';
import type { Change } from './ChangeGroup.js';
import type { LevelIndexWriter, Line } from './LevelIndexWriter.js';

export interface BookKeeperDependencies {
  readonly database: Database;
  readonly writer: LevelIndexWriter;
  /** A new book is durable. */
  readonly onChanged: () => void;
}

/** A change of the live range, and the batch with its blocks. */
interface LiveChange {
  readonly waiting: WaitingChange;
  readonly prepared: Promise<WriteBatch>;
}

/**
 * Owns the durable book of an open store, and writes its changes. Group commit: while one write is under way, further
 * changes, of whatever range, join the next one.
 */
export class BookKeeper {
  readonly #deps: BookKeeperDependencies;
  #book: StoreBook | undefined;
  /** The changes that the next write carries. */
  #next: ChangeGroup;
  #live: LiveChange | undefined;
  /** Ends when all changes so far have joined a group: at most one per range waits for that. */
  #joining: Promise<void> = Promise.resolve();

  constructor(book: StoreBook | undefined, dependencies: BookKeeperDependencies) {
    this.#book = book;
    this.#deps = dependencies;
    this.#next = new ChangeGroup(dependencies);
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
    this.#deps.onChanged();
  }

  /**
   * Writes the blocks and the book that `change` returns, together with other changes, as soon as a write can carry
   * them; then the new book counts. Rejects with the error of `change`, and then nothing of it is written, and like
   * `LevelIndexWriter.write`.
   */
  async record(line: Line, change: Change, blocks: readonly BlockEntry[] = []): Promise<void> {
    const waiting = new WaitingChange(change, blocks);
    // The caller gets the error from the await below, which may come later.
    waiting.done.catch(() => undefined);
    if (line === 'live') await this.#recordLive(waiting);
    else await this.#recordRange(waiting);
    await waiting.done;
  }

  async #recordLive(waiting: WaitingChange): Promise<void> {
    const { writer } = this.#deps;
    const prepared = writer.prepare(waiting.blocks);
    prepared.catch(() => undefined);
    const live = { waiting, prepared };
    this.#live = live;
    try {
      // The turn of a range may have written it already.
      await writer.inTurn('live', async () => {
        if (this.#live === live) await this.#write();
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
    this.#deps.writer.inTurn('range', () => this.#write()).catch((error: unknown) => this.#abandon(error));
  }

  /** Call it within a turn. Does not reject: the waiting changes do. */
  async #write(): Promise<void> {
    const live = this.#live;
    const isLiveAlone = live !== undefined && this.#next.members.length === 0;
    const group = isLiveAlone ? new ChangeGroup(this.#deps) : this.#next;
    if (live === undefined && group.members.length === 0) return;
    if (!isLiveAlone) this.#next = new ChangeGroup(this.#deps);
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
      await this.#deps.writer.write(() => batch.write());
      this.replace(after);
    }
    for (const { onDurable } of changes) onDurable?.();
    for (const { resolve } of accepted) resolve();
  }

  /** Rejects the changes that wait for a turn, when there will be none. */
  #abandon(error: unknown): void {
    const group = this.#next;
    this.#next = new ChangeGroup(this.#deps);
    void group.close().then(() => group[Symbol.dispose]());
    for (const member of group.members) member.reject(error);
  }
}
