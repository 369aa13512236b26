import type { EntryStore } from '../jobs/PersistedJobs.js';

/** Entries in memory: for tests and examples. */
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
