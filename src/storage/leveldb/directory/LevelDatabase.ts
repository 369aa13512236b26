import { ok as assert } from 'node:assert/strict';
import type { Level } from 'level';
import type { EndGate } from '../../../runtime/index.js';
import type { Database, Entry, WriteBatch } from '../../records/Database.js';
import type { KeyRange } from '../../records/schema.js';
import { storageErrorFrom } from '../../StorageError.js';
import { openLevel } from './openLevel.js';
import type { LevelTuning, OpenOptions } from './openLevel.js';
import { ReadBatcher } from './ReadBatcher.js';

/** Bytes and entries per page of an iterator. */
const PAGE_BYTES = 1024 * 1024;
const PAGE_ENTRIES = 1000;

/** The common part of the package's iterators over entries and over keys. */
interface PagedIterator<T> {
  nextv(size: number): Promise<T[]>;
  close(): Promise<void>;
}

/**
 * `write()` of a chained batch writes it and closes it. The underscored methods are abstract-level's implementation
 * hooks. Calling them directly skips its work for encodings, sublevels and hooks: a block of fifty transactions is
 * prepared in two thirds of the time.
 */
interface ReusableBatch {
  _put(key: Uint8Array, value: Uint8Array): void;
  _del(key: Uint8Array): void;
  _clear(): void;
  _write(options: { readonly sync: boolean }): Promise<void>;
}

/**
 * LevelDB reduced to what the store needs, with its errors turned into `StorageError`. Only this room knows the package.
 */
export class LevelDatabase implements Database {
  readonly #path: string;
  readonly #tuning: LevelTuning;
  readonly #level: Level<Buffer, Buffer>;
  readonly #gate: EndGate | undefined;
  /** Empty batches to reuse: at most as many as were ever in use at once. */
  readonly #spares: ReusableBatch[] = [];
  readonly #reads = new ReadBatcher({ read: (keys) => this.#level.getMany(keys) });
  /** There were writes, and the latest one succeeded: closing may tidy up. */
  #mayTidyUp = false;

  private constructor(
    path: string,
    tuning: LevelTuning,
    level: Level<Buffer, Buffer>,
    gate: EndGate | undefined,
  ) {
    this.#path = path;
    this.#tuning = tuning;
    this.#level = level;
    this.#gate = gate;
  }

  /** Expected errors: `StorageError`. */
  static async open(path: string, tuning: LevelTuning, options: OpenOptions) {
    const level = await openLevel(path, tuning, options);
    return new LevelDatabase(path, tuning, level, options.gate);
  }

  get(key: Buffer): Promise<Buffer | undefined> {
    return this.#guard('read the store', () => this.#level.get(key));
  }

  getMany(keys: Buffer[]): Promise<(Buffer | undefined)[]> {
    return this.#guard('read the store', () => this.#reads.getMany(keys));
  }

  hasMany(keys: Buffer[]): Promise<boolean[]> {
    return this.#guard('read the store', () => this.#level.hasMany(keys));
  }

  first(range: Partial<KeyRange>, limit: number): Promise<Entry[]> {
    return this.#guard('read the store', async () => {
      const iterator = this.#make(() => this.#level.iterator({ ...range, limit, fillCache: true }));
      try {
        const entries: Entry[] = [];
        while (entries.length < limit) {
          const page = await iterator.nextv(limit - entries.length);
          if (page.length === 0) break;
          entries.push(...page);
        }
        return entries;
      } finally {
        // Not awaited: under load every wait takes a whole turn of the event loop. Closing the database closes iterators
        // that are still open.
        iterator.close().catch(() => undefined);
      }
    });
  }

  lastKey(range: KeyRange): Promise<Buffer | undefined> {
    return this.#guard('read the store', async () => {
      const iterator = this.#make(() => this.#level.keys({ ...range, limit: 1, reverse: true }));
      try {
        return await iterator.next();
      } finally {
        await iterator.close();
      }
    });
  }

  pages(range: Partial<KeyRange>): AsyncGenerator<Entry[], void, undefined> {
    return this.#pagesOf(() => this.#level.iterator({ ...range, highWaterMarkBytes: PAGE_BYTES }));
  }

  keyPages(range: Partial<KeyRange>): AsyncGenerator<Buffer[], void, undefined> {
    return this.#pagesOf(() => this.#level.keys({ ...range, highWaterMarkBytes: PAGE_BYTES }));
  }

  compact({ gte, lt }: KeyRange): Promise<void> {
    // The types cover only what Node and browsers share (see `rebuildManifest`).
    const level = this.#level as unknown as { compactRange(start: Buffer, end: Buffer): Promise<void> };
    return this.#guard('compact the store', () => level.compactRange(gte, lt));
  }

  /** Opens the iterator for the first page, and closes it however the loop ends. */
  async *#pagesOf<T>(open: () => PagedIterator<T>): AsyncGenerator<T[], void, undefined> {
    const iterator = this.#make(open);
    try {
      for (;;) {
        const page = await this.#guard('read the store', () => iterator.nextv(PAGE_ENTRIES));
        if (page.length === 0) return;
        yield page;
      }
    } finally {
      await iterator.close();
    }
  }

  /**
   * A chained batch: an array of operations blocks the event loop two to three times as long. Every write is synced:
   * LevelDB does not sync its old log when it starts a new one, so an occasional sync could leave a hole.
   */
  batch(): WriteBatch {
    // A chained batch keeps its native memory until a full garbage collection, which may take minutes with a small
    // heap. With a new batch per write, memory would grow with everything written; so batches are reused.
    let lent: ReusableBatch | undefined =
      this.#spares.pop() ?? (this.#level.batch() as unknown as ReusableBatch);
    const own = (): ReusableBatch => {
      assert(lent !== undefined, 'the batch is over');
      return lent;
    };
    let length = 0;
    return {
      put: (key, value) => {
        own()._put(key, value);
        length += 1;
      },
      del: (key) => {
        own()._del(key);
        length += 1;
      },
      get length() {
        return length;
      },
      write: () => {
        // The next open deals with what a failed write leaves behind.
        this.#mayTidyUp = false;
        return this.#guard('write to the store', async () => {
          await own()._write({ sync: true });
          this.#mayTidyUp = true;
        });
      },
      [Symbol.dispose]: () => {
        if (lent === undefined) return;
        lent._clear();
        this.#spares.push(lent);
        lent = undefined;
      },
    };
  }

  /**
   * Closes the database. After writes it is opened once more: that turns the write-ahead log into a table (bounded by
   * the write buffer, unlike a compaction), so that the next start has nothing to replay, and a byte that changes on
   * disk afterwards is found by `verify`; a damaged log would be cut short at the next open instead.
   */
  async close(): Promise<void> {
    await this.#guard('close the store', () => this.#level.close());
    if (!this.#mayTidyUp) return;
    try {
      const again = await openLevel(this.#path, this.#tuning, { create: false });
      await again.close();
    } catch {
      // All data is on disk: whatever opens the database next does this work, or reports the fault.
    }
  }

  #make<T>(open: () => T): T {
    return this.#gate === undefined ? open() : this.#gate.within(open);
  }

  async #guard<T>(doing: string, action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      throw storageErrorFrom(error, doing, this.#path);
    }
  }
}

/** How the database of a directory is opened. Expected errors: `StorageError`. */
export type OpenDatabase = (path: string, tuning: LevelTuning, options: OpenOptions) => Promise<Database>;

export const openLevelDatabase: OpenDatabase = (path, tuning, options) =>
  LevelDatabase.open(path, tuning, options);
