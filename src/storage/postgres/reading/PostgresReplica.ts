import { silentLogger } from '../../../observability/index.js';
import { systemClock } from '../../../runtime/index.js';
import type { AccountReader } from '../../port/AccountIndex.js';
import type { RecordReader } from '../../records/reading/RecordReader.js';
import { ShownReplica } from '../../records/reading/ShownReplica.js';
import { databasePlace } from '../connection/databasePlace.js';
import { PostgresDatabase } from '../connection/PostgresDatabase.js';
import { readAccountPage } from './accountPage.js';
import { postgresReader } from './postgresReader.js';

/**
 * The read side of a database that another thread or process writes to, over connections of its own. While the database
 * is unreachable, reads fail (`unavailable`).
 */
export class PostgresReplica extends ShownReplica {
  readonly accounts: AccountReader;
  readonly reads: RecordReader;
  readonly #database: PostgresDatabase;

  private constructor(database: PostgresDatabase) {
    super();
    this.#database = database;
    this.reads = postgresReader(database, () => this.coverage());
    this.accounts = {
      coverage: () => this.shown.accounts,
      page: (query) => readAccountPage(database, query, this.shown.accounts),
    };
  }

  /** Connects at the first read. Expected errors: `OperatorError` (`configuration`). */
  static open({ url }: { readonly url: string }): PostgresReplica {
    // Reads never wait for the database, so there is nothing to log.
    const parts = { clock: systemClock, logger: silentLogger };
    return new PostgresReplica(new PostgresDatabase(databasePlace(url), parts));
  }

  close(): Promise<void> {
    return this.#database.close();
  }
}
