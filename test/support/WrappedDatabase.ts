import type { Database, Entry } from '../../src/storage/index.js';
import type { KeyRange } from '../../src/storage/records/schema.js';
import type { WriteBatch } from '../../src/storage/records/Database.js';

/** A database that passes every call on to another one: a base for those that interfere with some. */
export class WrappedDatabase implements Database {
  readonly inner: Database;

  constructor(inner: Database) {
    this.inner = inner;
  }

  get(key: Buffer): Promise<Buffer | undefined> {
    return this.inner.get(key);
  }

  getMany(keys: Buffer[]): Promise<(Buffer | undefined)[]> {
    return this.inner.getMany(keys);
  }

  hasMany(keys: Buffer[]): Promise<boolean[]> {
    return this.inner.hasMany(keys);
  }

  first(range: Partial<KeyRange>, limit: number): Promise<Entry[]> {
    return this.inner.first(range, limit);
  }

  lastKey(range: KeyRange): Promise<Buffer | undefined> {
    return this.inner.lastKey(range);
  }

  pages(range: Partial<KeyRange>): AsyncGenerator<Entry[], void, undefined> {
    return this.inner.pages(range);
  }

  keyPages(range: Partial<KeyRange>): AsyncGenerator<Buffer[], void, undefined> {
    return this.inner.keyPages(range);
  }

  compact(range: KeyRange): Promise<void> {
    return this.inner.compact(range);
  }

  batch(): WriteBatch {
    return this.inner.batch();
  }

  close(): Promise<void> {
    return this.inner.close();
  }
}
