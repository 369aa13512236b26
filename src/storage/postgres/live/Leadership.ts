import { ok as assert } from 'node:assert/strict';
import { AbortError } from '../../../runtime/index.js';
import { StorageError } from '../../StorageError.js';
import type { PostgresDatabase } from '../connection/PostgresDatabase.js';
import { readStore } from '../reading/loadStore.js';
import { Fence } from '../writing/Fence.js';
import type { KnownStore } from './KnownStore.js';

export interface LeadershipOptions {
  /** The store was opened to be read: it may not lead. */
  readonly isReadOnly: boolean;
  /** A damaged block at the watermark does not matter: it is about to be rewound away. */
  readonly forRewind: boolean;
}

export interface LeadershipDependencies {
  readonly database: PostgresDatabase;
  readonly known: KnownStore;
  /** See `PostgresIndexStore`. */
  readonly inTurn: <T>(action: () => Promise<T>) => Promise<T>;
  /** What is known of the store has changed. */
  readonly onChanged: () => void;
}

/** While this process leads. */
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

  /** Of the leader, which this process is. */
  fence(): Fence {
    return this.#current().fence;
  }

  /** As the port says. */
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
      known.load(await readStore(database, { isTolerant: forRewind }));
      known.renew();
      this.#leading = { fence, replaced };
    });
    onChanged();
    return replaced.signal;
  }

  /** As the port says. */
  async follow(): Promise<void> {
    if (this.#leading === undefined) return;
    const { known } = this.#deps;
    await known.line?.end();
    this.#leading = undefined;
    known.renew();
  }

  /** A write of the leader. One that another has replaced is told so. Expected errors: those of `write`. */
  async write<T>(write: (fence: Fence) => Promise<T>): Promise<T> {
    const { fence, replaced } = this.#current();
    try {
      return await write(fence);
    } catch (error) {
      if (error instanceof StorageError && error.kind === 'locked') replaced.abort(replacement());
      throw error;
    }
  }

  /** The database names this leader. */
  heard(epoch: number): void {
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
