import type { Database, Entry, KeyRange, WriteBatch } from '../../src/storage/index.js';

/** Thrown by the write at which the process ends, and by all that come after it. */
export class Crash extends Error {
  override readonly name = 'Crash';
}

/** A database whose process ends at a write of the test's choice. What it stands on outlives it. */
export class CrashingDatabase implements Database {
  readonly #inner: Database;
  #writesLeft = Infinity;
  #isWritten = false;
  #isDead = false;

  constructor(inner: Database) {
    this.#inner = inner;
  }

  /** The process ends at the write after so many more: before or after that one is on the disk. */
  crashAfter(writes: number, { isWritten }: { readonly isWritten: boolean }): void {
    this.#writesLeft = writes;
    this.#isWritten = isWritten;
  }

  get(key: Buffer): Promise<Buffer | undefined> {
    return this.#inner.get(key);
  }

  getMany(keys: Buffer[]): Promise<(Buffer | undefined)[]> {
    return this.#inner.getMany(keys);
  }

  hasMany(keys: Buffer[]): Promise<boolean[]> {
    return this.#inner.hasMany(keys);
  }

  first(range: Partial<KeyRange>, limit: number): Promise<Entry[]> {
    return this.#inner.first(range, limit);
  }

  lastKey(range: KeyRange): Promise<Buffer | undefined> {
    return this.#inner.lastKey(range);
  }

  pages(range: Partial<KeyRange>): AsyncGenerator<Entry[], void, undefined> {
    return this.#inner.pages(range);
  }

  keyPages(range: Partial<KeyRange>): AsyncGenerator<Buffer[], void, undefined> {
    return this.#inner.keyPages(range);
  }

  compact(range: KeyRange): Promise<void> {
    return this.#inner.compact(range);
  }

  batch(): WriteBatch {
    const inner = this.#inner.batch();
    return {
      put: (key, value) => inner.put(key, value),
      del: (key) => inner.del(key),
      get length() {
        return inner.length;
      },
      discard: () => inner.discard(),
      write: async () => {
        if (this.#isDead) throw new Crash();
        this.#writesLeft -= 1;
        if (this.#writesLeft >= 0) return inner.write();
        this.#isDead = true;
        if (this.#isWritten) await inner.write();
        throw new Crash();
      },
    };
  }

  close(): Promise<void> {
    return this.#inner.close();
  }
}
