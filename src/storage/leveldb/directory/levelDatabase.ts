import { ok as assert } from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf, outOfDescriptors, sleep, systemClock } from '../../../runtime/index.js';
import type { Database, Entry } from '../../records/Database.js';
import { keyAfter } from '../../records/schema.js';
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

/** How the database of a directory is opened. Expected errors: `StorageError`. */
export type OpenDatabase = (path: string, options: OpenOptions) => Promise<Database>;

/**
 * Opens LevelDB, reduced to what the store needs, with its errors as `StorageError`. Only this directory uses the package.
 * Expected errors: `StorageError`.
 */
export const levelDatabase: OpenDatabase = async (path, options) => {
  const { descriptors, gate } = options;
  const level = await openLevel(path, options);
  // The types cover only what Node and browsers share (see `repairLevel`).
  const native = level as unknown as {
    compactRange(start: Buffer, end: Buffer): Promise<void>;
    getProperty(name: string): string;
    _chainedBatch(): ReusableBatch;
  };
  /** Empty batches to reuse: at most as many as were ever in use at once. */
  const spares: ReusableBatch[] = [];
  let writes = 0;
  /** Reads to begin as soon as no write is under way. */
  const waitingReads: (() => void)[] = [];
  /** There were writes, and the latest one succeeded: closing may tidy up. */
  let mayTidyUp = false;
  /** How often the database was reopened, which closes all earlier iterators. */
  let reopened = 0;
  let reopening: Promise<void> | undefined;

  /**
   * Closes the database and opens it again. After a failed write of its own, while merging tables, LevelDB accepts no write until
   * it is reopened; what it has written is as safe as after a crash.
   */
  const reopen = (): Promise<void> => {
    const retried = (error: unknown): Promise<void> => {
      if (outOfDescriptors(error) === undefined) throw storageErrorFrom(error, 'open the store', path);
      return sleep(systemClock, WAIT_MS);
    };
    const again = async (): Promise<void> => {
      await level.close();
      while (level.status !== 'open') await level.open().catch(retried);
      reopened += 1;
    };
    reopening ??= (descriptors?.alone(again) ?? again()).finally(() => (reopening = undefined));
    return reopening;
  };
  /** Waits while no file can be opened, then repeats the action, which has done nothing yet. */
  const guard = async <T>(doing: string, action: () => Promise<T>, isWrite = false): Promise<T> => {
    for (let waited = 0; ;) {
      if (reopening !== undefined) await reopening;
      const before = reopened;
      try {
        const result = await action();
        if (waited > 0) descriptors?.waits(undefined);
        return result;
      } catch (error) {
        // The database was being reopened.
        if (reopening !== undefined || before !== reopened) continue;
        const isOver = descriptors === undefined && waited >= MAX_WAITS;
        if (isOver || outOfDescriptors(error) === undefined) throw storageErrorFrom(error, doing, path);
        descriptors?.waits(`the store cannot open a file (${messageOf(error)})`);
        do await sleep(systemClock, WAIT_MS);
        while (descriptors !== undefined && !(await canOpen(path)));
        // The write failed again, although files can be opened.
        if (isWrite && waited > 0 && before === reopened) await reopen();
        waited += 1;
      }
    }
  };
  const reading = <T>(action: () => Promise<T>): Promise<T> => guard('read the store', action);

  /**
   * Begins a read, or ends one, while no write is under way. Each takes LevelDB's lock for a moment on the calling thread, and a
   * write keeps it while it creates its next log: on a disk that hangs, the calling thread would hang as well, forever.
   */
  const betweenWrites = async <T>(begin: () => T | Promise<T>): Promise<T> => {
    if (writes === 0) return begin();
    return new Promise<T>((resolve) => void waitingReads.push(() => resolve((async () => begin())())));
  };
  const make = <T>(open: () => T): Promise<T> =>
    betweenWrites(() => (gate === undefined ? open() : gate.within(open)));
  const close = (iterator: { close(): Promise<void> }): Promise<void> =>
    betweenWrites(() => iterator.close());
  const getMany = batchedReads((keys) => betweenWrites(() => level.getMany(keys)));
  /** New writes wait while reads do, so that reads are not starved. */
  const write = async (batch: ReusableBatch): Promise<void> => {
    if (waitingReads.length > 0) await betweenWrites(() => undefined);
    writes += 1;
    try {
      await batch._write({ sync: true });
    } finally {
      writes -= 1;
      if (writes === 0) for (const begin of waitingReads.splice(0)) begin();
    }
  };
  const liveTables = (): Promise<ReadonlySet<number>> =>
    reading(async () => {
      const levels = await betweenWrites(() => native.getProperty('leveldb.sstables'));
      return new Set([...levels.matchAll(/^ (\d+):/gm)].map(([, number]) => Number(number)));
    });

  return {
    get: (key) => reading(() => betweenWrites(() => level.get(key))),
    getMany: (keys) => reading(() => getMany(keys)),
    first: (range, limit) =>
      reading(async () => {
        const iterator = await make(() => level.iterator({ ...range, limit, fillCache: true }));
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
          close(iterator).catch(() => undefined);
        }
      }),
    lastKey: (range) =>
      reading(async () => {
        const iterator = await make(() => level.keys({ ...range, limit: 1, reverse: true }));
        return iterator.next().finally(() => close(iterator));
      }),
    /**
     * Opens the iterator for the first page, and closes it however the loop ends. An iterator that failed, or that was closed
     * with the database, is replaced by one that begins after the last page.
     */
    async *pages(range) {
      let rest = range;
      const open = () => level.iterator({ ...rest, highWaterMarkBytes: PAGE_BYTES });
      let iterator: ReturnType<typeof open> | undefined;
      let before = reopened;
      const next = async (): Promise<Entry[]> => {
        if (before !== reopened) iterator = undefined;
        before = reopened;
        const one = (iterator ??= await make(open));
        try {
          return await one.nextv(PAGE_ENTRIES);
        } catch (error) {
          iterator = undefined;
          await close(one);
          throw error;
        }
      };
      try {
        for (;;) {
          const page = await reading(next);
          const last = page.at(-1);
          if (last === undefined) return;
          rest = { ...range, gte: keyAfter(last[0]) };
          yield page;
        }
      } finally {
        if (iterator !== undefined) await close(iterator);
      }
    },
    compact: ({ gte, lt }) => guard('compact the store', () => native.compactRange(gte, lt)),
    sizeBytes: fileWatch(path, liveTables),
    /**
     * A chained batch: an array of operations blocks the event loop two to three times as long. Every write is synced:
     * LevelDB does not sync its old log when it starts a new one, so an occasional sync could leave a hole.
     */
    batch: () => {
      // A chained batch keeps its native memory until a full garbage collection, which may take minutes with a small heap,
      // so batches are reused. `batch()` itself would refuse while the database is opened again.
      let lent: ReusableBatch | undefined = spares.pop() ?? native._chainedBatch();
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
          mayTidyUp = false;
          const action = async (): Promise<void> => {
            await write(own());
            mayTidyUp = true;
          };
          return guard('write to the store', action, true);
        },
        [Symbol.dispose]: () => {
          if (lent === undefined) return;
          lent._clear();
          spares.push(lent);
          lent = undefined;
        },
      };
    },
    /**
     * Closes the database. After writes it is opened once more: that turns the write-ahead log into a table (bounded by
     * the write buffer, unlike a compaction), so that the next start has nothing to replay, and a byte that changes on
     * disk afterwards is found by `verify`; a damaged log would be cut short at the next open instead.
     */
    close: async () => {
      await guard('close the store', () => level.close());
      // LevelDB would recreate a directory that was moved away.
      if (mayTidyUp && (await holdsData(path).catch(() => false)))
        try {
          await level.open({ createIfMissing: false });
          await level.close();
        } catch {
          // All data is on disk: whatever opens the database next does this work, or reports the fault.
        }
      await giveToOwner(path);
    },
  };
};

/** False while a few files cannot be opened at once. */
async function canOpen(path: string): Promise<boolean> {
  const opening = Array.from({ length: FILES_TO_GO_ON }, () => open(join(path, 'CURRENT')));
  const files = await Promise.allSettled(opening);
  for (const file of files) if (file.status === 'fulfilled') await file.value.close();
  return files.every((file) => file.status === 'fulfilled' || outOfDescriptors(file.reason) === undefined);
}

/** Opens a database, or creates it, for `use`, and closes it afterwards. Expected errors: `StorageError`; those of `use`. */
export async function withDatabase<T>(path: string, use: (opened: Database) => Promise<T>, create = false) {
  const database = await levelDatabase(path, { create });
  return use(database).finally(() => database.close());
}
