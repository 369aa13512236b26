import { ok as assert } from 'node:assert/strict';
import type { EndGate } from '../../../runtime/index.js';
import { readAccountPage } from '../../accounts/accountPages.js';
import type { AccountReader } from '../../port/AccountIndex.js';
import type { Database } from '../../records/Database.js';
import type { RecordReader } from '../../records/reading/RecordReader.js';
import { ShownReplica } from '../../records/reading/ShownReplica.js';
import { openLevelDatabase } from '../directory/LevelDatabase.js';
import { defaultTuning } from '../directory/openLevel.js';
import { levelReader } from './levelReader.js';

/** The thread that opened the database first caches its blocks. */
const NO_CACHE_BYTES = 0;

/** The read side of a store that another thread of this process has opened and writes to. */
export class LevelReplica extends ShownReplica {
  readonly accounts: AccountReader;
  readonly reads: RecordReader;
  readonly #database: Database;

  private constructor(database: Database) {
    super();
    this.#database = database;
    this.reads = levelReader(database, () => this.coverage());
    this.accounts = {
      coverage: () => this.shown.accounts,
      page: (query) => {
        const { accounts: coverage, meta } = this.shown;
        assert(coverage !== undefined, 'the account index is off');
        return this.tell(readAccountPage(database, query, { coverage, firstHeight: meta?.firstHeight ?? 0 }));
      },
    };
  }

  /** `gate`: see `OpenOptions`. Expected errors: `StorageError`. */
  static async open({ path, gate }: { readonly path: string; readonly gate?: EndGate | undefined }) {
    const tuning = { ...defaultTuning, cacheBytes: NO_CACHE_BYTES };
    return new LevelReplica(await openLevelDatabase(path, tuning, { create: false, isShared: true, gate }));
  }

  /** Like `open`, over a database that is open already, which is closed with it. For the simulation. */
  static over(database: Database): LevelReplica {
    return new LevelReplica(database);
  }

  close(): Promise<void> {
    return this.#database.close();
  }
}
