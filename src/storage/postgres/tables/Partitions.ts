import type { PostgresDatabase } from '../connection/PostgresDatabase.js';
import { lockStore } from './readState.js';
import { DATA_TABLES, partitionOf, partitionStatements } from './schema.js';

/** The partitions of the data tables, created before the first height of each is written. */
export class Partitions {
  readonly #database: PostgresDatabase;
  readonly #known = new Set<number>();

  constructor({ database }: { readonly database: PostgresDatabase }) {
    this.#database = database;
  }

  /** For these heights. Expected errors: `StorageError`. */
  async make(heights: readonly number[]): Promise<void> {
    for (const partition of new Set(heights.map(partitionOf))) {
      if (this.#known.has(partition)) continue;
      await this.#database.persist(() => this.#make(partition));
      this.#known.add(partition);
    }
  }

  #make(partition: number): Promise<void> {
    return this.#database.transaction(async (session) => {
      // One process at a time creates partitions.
      await lockStore(session);
      const { rows } = await session.query<{ table: string }>({
        text: `SELECT wanted AS table FROM unnest($1::text[]) AS wanted WHERE NOT EXISTS (SELECT FROM pg_class
          WHERE oid = to_regclass('flow_store.' || wanted || '_' || $2) AND relispartition)`,
        values: [DATA_TABLES, String(partition)],
      });
      if (rows.length === 0) return;
      const statements = rows.flatMap(({ table }) => partitionStatements(table, partition));
      await session.query({ text: statements.join(';\n') });
    });
  }
}
