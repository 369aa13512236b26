import type { EntryStore } from './PersistedJobs.js';
import type { ConsumerProgress } from './types.js';

/** A progress that lives as long as the object: for tests and examples. */
export class MemoryProgress implements ConsumerProgress {
  #index: number | undefined;

  constructor(index?: number) {
    this.#index = index;
  }

  processedIndex(): number | undefined {
    return this.#index;
  }

  setProcessedIndex(index: number): void {
    this.#index = index;
  }
}

/** Entries that live as long as the object: for tests and examples. */
export class MemoryEntries<E> implements EntryStore<E> {
  readonly #entries = new Map<number, E>();
  #latest: number | undefined;

  latestIndex(): number | undefined {
    return this.#latest;
  }

  read(index: number): E | undefined {
    return this.#entries.get(index);
  }

  append(index: number, entry: E): void {
    this.#entries.set(index, entry);
    this.#latest = index;
  }
}
