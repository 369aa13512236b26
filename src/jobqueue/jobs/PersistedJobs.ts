import { places } from '../../runtime/index.js';
import type { Job, Jobs, Notifiable } from '../types.js';

/** Converts between a producer's entries and jobs: `jobToEntry(entryToJob(entry))` equals the entry. */
export interface EntryCodec<E, J extends Job> {
  entryToJob(entry: E): J;
  jobToEntry(job: J): E;
}

/** Where entries are stored: a narrow port to any key-value store. */
export interface EntryStore<E> {
  /** The index of the last entry; `undefined` while there is none. */
  latestIndex(): number | undefined | Promise<number | undefined>;
  read(index: number): E | undefined | Promise<E | undefined>;
  /** Writes the entry and moves `latestIndex` to it, durably: after a crash either both happened or neither. */
  append(index: number, entry: E): void | Promise<void>;
}

export interface PersistedJobsOptions {
  /** The index below the first entry, for an empty store. Default 0: the first entry gets index 1. */
  readonly defaultIndex?: number;
}

interface Dependencies<E, J extends Job> {
  readonly store: EntryStore<E>;
  readonly codec: EntryCodec<E, J>;
  /** Notified once an entry is durable: the consumer's wake-up. */
  readonly wakes?: Notifiable;
}

/**
 * Push style: a producer appends entries, each durable under the next index, and a `JobConsumer` reads them back as jobs.
 */
export class PersistedJobs<E, J extends Job> implements Jobs<J> {
  readonly #defaultIndex: number;
  readonly #deps: Dependencies<E, J>;
  readonly #inTurn = places(1);

  constructor(options: PersistedJobsOptions, dependencies: Dependencies<E, J>) {
    this.#defaultIndex = options.defaultIndex ?? 0;
    this.#deps = dependencies;
  }

  /**
   * Resolves with the entry's index once it is durable. Appends take effect in the order of the calls; the index of a
   * failed one is reused. Await it: that is the back-pressure on a fast producer. Expected errors: those of the store.
   */
  append(entry: E): Promise<number> {
    return this.#inTurn(() => this.#appendNext(entry));
  }

  async head(): Promise<number> {
    return (await this.#deps.store.latestIndex()) ?? this.#defaultIndex;
  }

  async atIndex(index: number): Promise<J | undefined> {
    const entry = await this.#deps.store.read(index);
    return entry === undefined ? undefined : this.#deps.codec.entryToJob(entry);
  }

  async #appendNext(entry: E): Promise<number> {
    const index = (await this.head()) + 1;
    await this.#deps.store.append(index, entry);
    this.#deps.wakes?.notify();
    return index;
  }
}
