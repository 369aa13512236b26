import { ok as assert } from 'node:assert/strict';
import { AbortError } from '../../../runtime/index.js';
import { StorageError } from '../../StorageError.js';
import type { PostgresDatabase } from '../connection/PostgresDatabase.js';
import { readStore } from '../reading/loadStore.js';
import { Fence } from '../writing/Fence.js';
import type { KnownStore } from './KnownStore.js';

export interface LeadershipOptions {
  /** The store was opened for reading only, and may not lead. */
  readonly isReadOnly: boolean;
  /** Tolerates a damaged block at the watermark, which a rewind is about to remove. */
  readonly forRewind: boolean;
}

export interface LeadershipDependencies {
  readonly database: PostgresDatabase;
  readonly known: KnownStore;
  /** See `PostgresIndexStore`. */
  readonly inTurn: <T>(action: () => Promise<T>) => Promise<T>;
  /** Called after the known state of the store changed. */
  readonly onChanged: () => void;
}

/** The state of a process that leads. */
interface Leading {
  readonly fence: Fence;
  readonly replaced: AbortController;
}

/** Who writes the live range: this process, or another one (`SharedStore`). */
export class Leadership {
  readonly #options: LeadershipOptions;
  readonly #deps: LeadershipDependencies;
  #leading: Leading | undefined;

  constructor(options: LeadershipOptions, dependencies: LeadershipDependencies) {
    this.#options = options;
    this.#deps = dependencies;
  }

  get isLeading(): boolean {
    return this.#leading !== undefined;
  }

  /** The fence of this process, which must lead. */
  fence(): Fence {
    return this.#current().fence;
  }

  /** See `SharedStore`. */
  async lead(): Promise<AbortSignal> {
    const { isReadOnly, forRewind } = this.#options;
    assert(!isReadOnly, 'the store was opened to be read');
    await this.follow();
    const { database, known, inTurn, onChanged } = this.#deps;
    const fence = await database.persist(() =>
      database.transaction((session) => Fence.take(database, session, { table: 'store' })),
    );
    const replaced = new AbortController();
    await inTurn(async () => {
      known.load(await readStore(database, { isTolerant: forRewind, before: known.latestBlock }));
      known.renew();
      this.#leading = { fence, replaced };
    });
    onChanged();
    return replaced.signal;
  }

  /** See `SharedStore`. */
  async follow(): Promise<void> {
    if (this.#leading === undefined) return;
    const { known } = this.#deps;
    await known.line?.end();
    this.#leading = undefined;
    known.renew();
  }

  /** Runs a write of the leader; aborts its signal if another process has replaced it. Expected errors: those of `write`. */
  async write<T>(write: (fence: Fence) => Promise<T>): Promise<T> {
    const { fence, replaced } = this.#current();
    try {
      return await write(fence);
    } catch (error) {
      if (error instanceof StorageError && error.kind === 'locked') replaced.abort(replacement());
      throw error;
    }
  }

  /** Takes note of the epoch of the leader, as the database has it. */
  noticeEpoch(epoch: number): void {
    if (this.#leading !== undefined && epoch > this.#leading.fence.epoch) {
      this.#leading.replaced.abort(replacement());
    }
  }

  #current(): Leading {
    assert(this.#leading !== undefined, 'this process does not lead');
    return this.#leading;
  }
}

function replacement(): AbortError {
  return new AbortError('another process leads now');
}
