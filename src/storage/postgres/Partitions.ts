import type { PostgresDatabase } from './PostgresDatabase.js';
import { DATA_TABLES, partitionOf, partitionStatements } from './schema.js';

/** The partitions of the data tables, made before the first height of each is written. */
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
      // One at a time, whoever makes them.
      await session.query({ text: 'SELECT FROM flow_store.store FOR UPDATE' });
      for (const table of DATA_TABLES) {
        const { rowCount } = await session.query({
          text: 'SELECT FROM pg_class WHERE oid = to_regclass($1) AND relispartition',
          values: [`flow_store.${table}_${partition}`],
        });
        if (rowCount > 0) continue;
        for (const text of partitionStatements(table, partition)) await session.query({ text });
      }
    });
  }
}
