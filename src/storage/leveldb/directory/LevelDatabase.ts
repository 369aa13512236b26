import { ok as assert } from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import type { Level } from 'level';
import { messageOf, outOfDescriptors, sleep, systemClock } from '../../../runtime/index.js';
import type { Database, Entry, WriteBatch } from '../../records/Database.js';
import { keyAfter, type KeyRange } from '../../records/schema.js';
import { storageErrorFrom } from '../../StorageError.js';
import { batchedReads } from './batchedReads.js';
import { fileWatch } from './fileWatch.js';
import { openLevel, type OpenOptions } from './openLevel.js';
import { giveToOwner, holdsData } from './storeDirectory.js';

/** Bytes and entries per page of an iterator. */
const PAGE_BYTES = 1024 * 1024;
const PAGE_ENTRIES = 1000;

/** Between two attempts of an action that could not open a file; and how many of them a reader waits for. */
const WAIT_MS = 250;
const MAX_WAITS = 8;
/** Files that must open at once before the database is opened again. */
const FILES_TO_GO_ON = 8;

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

/** LevelDB reduced to what the store needs, with its errors as `StorageError`. Only this directory uses the package. */
export class LevelDatabase implements Database {
  readonly #path: string;
  readonly #level: Level<Buffer, Buffer>;
  readonly #options: OpenOptions;
  /** Empty batches to reuse: at most as many as were ever in use at once. */
  readonly #spares: ReusableBatch[] = [];
  readonly #getMany = batchedReads((keys) => this.#betweenWrites(() => this.#level.getMany(keys)));
  #writes = 0;
  /** Reads to begin as soon as no write is under way. */
  #waitingReads: (() => void)[] = [];
  /** There were writes, and the latest one succeeded: closing may tidy up. */
  #mayTidyUp = false;
  readonly sizeBytes: NonNullable<Database['sizeBytes']>;
  /** How often the database was reopened, which closes all earlier iterators. */
  #reopened = 0;
  #reopening: Promise<void> | undefined;

  private constructor(path: string, level: Level<Buffer, Buffer>, options: OpenOptions) {
    this.#path = path;
    this.#level = level;
    this.#options = options;
    this.sizeBytes = fileWatch(path, () => this.#liveTables());
  }

  /** Expected errors: `StorageError`. */
  static async open(path: string, options: OpenOptions) {
    return new LevelDatabase(path, await openLevel(path, options), options);
  }

  get(key: Buffer): Promise<Buffer | undefined> {
    return this.#guard('read the store', () => this.#betweenWrites(() => this.#level.get(key)));
  }

  getMany(keys: Buffer[]): Promise<(Buffer | undefined)[]> {
    return this.#guard('read the store', () => this.#getMany(keys));
  }

  first(range: Partial<KeyRange>, limit: number): Promise<Entry[]> {
    return this.#guard('read the store', async () => {
      const iterator = await this.#make(() => this.#level.iterator({ ...range, limit, fillCache: true }));
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
        this.#close(iterator).catch(() => undefined);
      }
    });
  }

  lastKey(range: KeyRange): Promise<Buffer | undefined> {
    return this.#guard('read the store', async () => {
      const iterator = await this.#make(() => this.#level.keys({ ...range, limit: 1, reverse: true }));
      return iterator.next().finally(() => this.#close(iterator));
    });
  }

  /**
   * Opens the iterator for the first page, and closes it however the loop ends. An iterator that failed, or that was closed
   * with the database, is replaced by one that begins after the last page.
   */
  async *pages(range: Partial<KeyRange>): AsyncGenerator<Entry[], void, undefined> {
    let rest = range;
    const open = () => this.#level.iterator({ ...rest, highWaterMarkBytes: PAGE_BYTES });
    let iterator: ReturnType<typeof open> | undefined;
    let reopened = this.#reopened;
    const next = async (): Promise<Entry[]> => {
      if (reopened !== this.#reopened) iterator = undefined;
      reopened = this.#reopened;
      const one = (iterator ??= await this.#make(open));
      try {
        return await one.nextv(PAGE_ENTRIES);
      } catch (error) {
        iterator = undefined;
        await this.#close(one);
        throw error;
      }
    };
    try {
      for (;;) {
        const page = await this.#guard('read the store', next);
        const last = page.at(-1);
        if (last === undefined) return;
        rest = { ...range, gte: keyAfter(last[0]) };
        yield page;
      }
    } finally {
      if (iterator !== undefined) await this.#close(iterator);
    }
  }

  compact({ gte, lt }: KeyRange): Promise<void> {
    // The types cover only what Node and browsers share (see `repairLevel`).
    const level = this.#level as unknown as { compactRange(start: Buffer, end: Buffer): Promise<void> };
    return this.#guard('compact the store', () => level.compactRange(gte, lt));
  }

  #liveTables(): Promise<ReadonlySet<number>> {
    const level = this.#level as unknown as { getProperty(name: string): string };
    return this.#guard('read the store', async () => {
      const levels = await this.#betweenWrites(() => level.getProperty('leveldb.sstables'));
      return new Set([...levels.matchAll(/^ (\d+):/gm)].map(([, number]) => Number(number)));
    });
  }

  /**
   * A chained batch: an array of operations blocks the event loop two to three times as long. Every write is synced:
   * LevelDB does not sync its old log when it starts a new one, so an occasional sync could leave a hole.
   */
  batch(): WriteBatch {
    // A chained batch keeps its native memory until a full garbage collection, which may take minutes with a small heap,
    // so batches are reused. `batch()` itself would refuse while the database is opened again.
    const level = this.#level as unknown as { _chainedBatch(): ReusableBatch };
    let lent: ReusableBatch | undefined = this.#spares.pop() ?? level._chainedBatch();
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
        const action = async (): Promise<void> => {
          await this.#write(own());
          this.#mayTidyUp = true;
        };
        return this.#guard('write to the store', action, { isWrite: true });
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
    // LevelDB would recreate a directory that was moved away.
    if (this.#mayTidyUp && (await holdsData(this.#path).catch(() => false)))
      try {
        await this.#level.open({ createIfMissing: false });
        await this.#level.close();
      } catch {
        // All data is on disk: whatever opens the database next does this work, or reports the fault.
      }
    await giveToOwner(this.#path);
  }

  #make<T>(open: () => T): Promise<T> {
    const { gate } = this.#options;
    return this.#betweenWrites(() => (gate === undefined ? open() : gate.within(open)));
  }

  #close(iterator: { close(): Promise<void> }): Promise<void> {
    return this.#betweenWrites(() => iterator.close());
  }

  /** New writes wait while reads do, so that reads are not starved. */
  async #write(batch: ReusableBatch): Promise<void> {
    if (this.#waitingReads.length > 0) await this.#betweenWrites(() => undefined);
    this.#writes += 1;
    try {
      await batch._write({ sync: true });
    } finally {
      this.#writes -= 1;
      if (this.#writes === 0) for (const begin of this.#waitingReads.splice(0)) begin();
    }
  }

  /**
   * Begins a read, or ends one, while no write is under way. Each takes LevelDB's lock for a moment on the calling thread, and a
   * write keeps it while it creates its next log: on a disk that hangs, the calling thread would hang as well, forever.
   */
  async #betweenWrites<T>(begin: () => T | Promise<T>): Promise<T> {
    if (this.#writes === 0) return begin();
    return new Promise<T>((resolve) => void this.#waitingReads.push(() => resolve((async () => begin())())));
  }

  /** Waits while no file can be opened, then repeats the action, which has done nothing yet. */
  async #guard<T>(doing: string, action: () => Promise<T>, { isWrite = false } = {}): Promise<T> {
    const { descriptors } = this.#options;
    for (let waited = 0; ;) {
      if (this.#reopening !== undefined) await this.#reopening;
      const reopened = this.#reopened;
      try {
        const result = await action();
        if (waited > 0) descriptors?.waits(undefined);
        return result;
      } catch (error) {
        // The database was being reopened.
        if (this.#reopening !== undefined || reopened !== this.#reopened) continue;
        const isOver = descriptors === undefined && waited >= MAX_WAITS;
        if (isOver || outOfDescriptors(error) === undefined) throw storageErrorFrom(error, doing, this.#path);
        descriptors?.waits(`the store cannot open a file (${messageOf(error)})`);
        do await sleep(systemClock, WAIT_MS);
        while (descriptors !== undefined && !(await canOpen(this.#path)));
        // The write failed again, although files can be opened.
        if (isWrite && waited > 0 && reopened === this.#reopened) await this.#reopen();
        waited += 1;
      }
    }
  }

  /**
   * Closes the database and opens it again. After a failed write of its own, while merging tables, LevelDB accepts no write until
   * it is reopened; what it has written is as safe as after a crash.
   */
  #reopen(): Promise<void> {
    const again = async (): Promise<void> => {
      await this.#level.close();
      while (!(await this.#opens())) await sleep(systemClock, WAIT_MS);
      this.#reopened += 1;
    };
    this.#reopening ??= (this.#options.descriptors?.alone(again) ?? again()).finally(
      () => (this.#reopening = undefined),
    );
    return this.#reopening;
  }

  async #opens(): Promise<boolean> {
    try {
      await this.#level.open();
      return true;
    } catch (error) {
      if (outOfDescriptors(error) !== undefined) return false;
      throw storageErrorFrom(error, 'open the store', this.#path);
    }
  }
}

/** False while a few files cannot be opened at once. */
async function canOpen(path: string): Promise<boolean> {
  const opening = Array.from({ length: FILES_TO_GO_ON }, () => open(join(path, 'CURRENT')));
  const files = await Promise.allSettled(opening);
  for (const file of files) if (file.status === 'fulfilled') await file.value.close();
  return files.every((file) => file.status === 'fulfilled' || outOfDescriptors(file.reason) === undefined);
}

/** How the database of a directory is opened. Expected errors: `StorageError`. */
export type OpenDatabase = (path: string, options: OpenOptions) => Promise<Database>;

/** Opens a database, or creates it, for `use`, and closes it afterwards. Expected errors: `StorageError`; those of `use`. */
export async function withDatabase<T>(path: string, use: (opened: Database) => Promise<T>, create = false) {
  const database = await LevelDatabase.open(path, { create });
  return use(database).finally(() => database.close());
}
