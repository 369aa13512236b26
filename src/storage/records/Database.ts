import type { KeyRange } from './schema.js';

export type Entry = [key: Buffer, value: Buffer];

/**
 * Puts and deletions that take effect together, or not at all. Keys and values are copied at once. The database keeps a
 * batch until it is written or disposed of: take it with `using`.
 */
export interface WriteBatch extends Disposable {
  put(key: Uint8Array, value: Uint8Array): void;
  del(key: Uint8Array): void;
  readonly length: number;
  /** Once. Resolves when everything is on disk. */
  write(): Promise<void>;
}

/** An ordered key-value database, as the store needs it. Expected errors of all asynchronous methods: `StorageError`. */
export interface Database {
  get(key: Buffer): Promise<Buffer | undefined>;
  getMany(keys: Buffer[]): Promise<(Buffer | undefined)[]>;
  /** The lowest entries of a range, at most `limit`, which should be small: they are read in one go. */
  first(range: Partial<KeyRange>, limit: number): Promise<Entry[]>;
  /** The highest key of a range. */
  lastKey(range: KeyRange): Promise<Buffer | undefined>;
  /** All entries of a range, ascending, in pages of bounded size; a snapshot of one moment. */
  pages(range: Partial<KeyRange>): AsyncGenerator<Entry[], void, undefined>;
  /**
   * Returns the space of deleted entries of a range to the disk. Takes as long as rewriting what is left of the range.
   */
  compact(range: KeyRange): Promise<void>;
  batch(): WriteBatch;
  /** See `IndexStore.sizeBytes`. */
  readonly sizeBytes?: (signal: AbortSignal) => Promise<number | undefined>;
  close(): Promise<void>;
}
