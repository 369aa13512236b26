import { ok as assert } from 'node:assert/strict';
import type { IndexedRange } from '../../src/api/index.js';
import { systemClock } from '../../src/runtime/index.js';
import { LevelIndexStore, SCHEMA_VERSION } from '../../src/storage/index.js';
import type { CommitBatch } from '../../src/storage/port/RangeStore.js';
import type { IndexStore, SporkRecord } from '../../src/storage/index.js';
import { DISK_PATH, DiskDatabase, SimulatedDisk } from '../simulation/SimulatedDisk.js';
import { accountsOff } from './accountsOff.js';
import { RecordingLogger } from './recordingLogger.js';
import { standIn } from './standIn.js';

/** What happens to the index beside its readers; `begin` and `end` are the halves of a commit. */
export type Change =
  | { readonly kind: 'heads'; readonly sealed: number; readonly head: number }
  | { readonly kind: 'begin'; readonly batch: CommitBatch }
  | { readonly kind: 'end' };

/** A database whose reads are held up before and after, and whose writes, once on disk, are told of later. */
class HeldUpDatabase extends DiskDatabase {
  readonly #holdUp: () => Promise<void>;
  readonly #untold: () => Promise<void>;

  constructor(holdUp: () => Promise<void>, untold: () => Promise<void>) {
    super(new SimulatedDisk());
    this.#holdUp = holdUp;
    this.#untold = untold;
  }

  protected override async read<T>(answer: () => T): Promise<T> {
    await this.#holdUp();
    const found = answer();
    await this.#holdUp();
    return found;
  }

  protected override async write(...batch: Parameters<DiskDatabase['write']>): Promise<void> {
    await super.write(...batch);
    await this.#untold();
  }
}

export interface ChangingIndexOptions {
  readonly firstHeight: number;
  readonly sporks: readonly SporkRecord[];
  readonly changes: readonly Change[];
}

/**
 * The real store over a disk in memory, and the heads of its chain, that go through given changes one by one: those that
 * `between` counts out happen while a read of the store is under way, before the database has looked and after it has.
 */
export class ChangingIndex {
  readonly status: { range(): IndexedRange };
  /** Changes to happen at the next steps of reads; none when there are no more. */
  between: number[] = [];
  /** Changes that have happened. */
  at = 0;
  #store: LevelIndexStore | undefined;
  #heads: { readonly sealed: number | null; readonly head: number | null } = { sealed: null, head: null };
  readonly #options: ChangingIndexOptions;
  #committing: Promise<void> | undefined;
  #tell: (() => void) | undefined;
  #written: (() => void) | undefined;

  private constructor(options: ChangingIndexOptions) {
    this.#options = options;
    this.status = {
      range: () => {
        const latest = this.store.latestIndexedHeight();
        return { firstIndexed: options.firstHeight, latestIndexed: latest, ...this.#heads };
      },
    };
  }

  /** With the first `at` changes behind it. */
  static async after(at: number, options: ChangingIndexOptions): Promise<ChangingIndex> {
    const index = new ChangingIndex(options);
    const database = new HeldUpDatabase(
      () => index.#go(index.between.shift() ?? 0),
      () => index.#isWritten(),
    );
    index.#store = await LevelIndexStore.over(
      database,
      { path: DISK_PATH, chainId: 'flow-localnet' },
      { logger: new RecordingLogger(), clock: systemClock },
    );
    await index.store.initialise({
      ...{ schemaVersion: SCHEMA_VERSION, chainId: 'flow-localnet', createdBy: 'test' },
      ...{ firstHeight: options.firstHeight, sporks: options.sporks },
    });
    await index.#go(at);
    return index;
  }

  get store(): LevelIndexStore {
    assert(this.#store !== undefined);
    return this.#store;
  }

  /** Changes that are still to come stay away; a commit under way comes to its end. */
  async settle(): Promise<void> {
    this.between = [];
    this.#tell?.();
    await this.#committing;
  }

  async #go(count: number): Promise<void> {
    for (const change of this.#options.changes.slice(this.at, this.at + count)) {
      this.at += 1;
      await this.#change(change);
    }
  }

  async #change(change: Change): Promise<void> {
    switch (change.kind) {
      case 'heads':
        this.#heads = { sealed: change.sealed, head: change.head };
        return;
      case 'begin': {
        const written = new Promise<void>((resolve) => (this.#written = resolve));
        this.#committing = this.store.commit(change.batch);
        await written;
        return;
      }
      case 'end':
        this.#tell?.();
        await this.#committing;
        this.#committing = undefined;
    }
  }

  /** A commit is on disk, and its writer waits to be told. Before there is any commit, nobody waits. */
  async #isWritten(): Promise<void> {
    if (this.#written === undefined) return;
    const told = new Promise<void>((resolve) => (this.#tell = resolve));
    this.#written();
    await told;
  }
}

/** The read side of an index that may be exchanged for another. */
export class ExchangeableIndex {
  index: ChangingIndex | undefined;
  readonly status = { range: () => this.#index.status.range() };
  readonly store = standIn<IndexStore>(() => this.#index.store, {
    accounts: accountsOff,
    rewinds: () => this.index?.store.rewinds() ?? 0,
  });

  get #index(): ChangingIndex {
    assert(this.index !== undefined);
    return this.index;
  }
}
