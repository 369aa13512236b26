import { databasePlace } from '../connection/databasePlace.js';
import { PostgresDatabase, type PostgresDatabaseDependencies } from '../connection/PostgresDatabase.js';
import { INDEXES } from './schema.js';

/** How long to wait after another session was in the way, or the server refused. */
const AGAIN_MS = 10_000;

const wanted = Object.entries(INDEXES).map(([index, [table]]) => `('${index}', '${table}')`);
/** Indexes that are missing: of a whole table, or of one of its partitions, where it may have been begun. */
const LACKS = `
  SELECT index, relname AS part, indisvalid AS "isValid",
    EXISTS (SELECT FROM pg_stat_progress_create_index WHERE relid = inhrelid) AS "isBusy"
  FROM (VALUES ${wanted.join()}) AS wanted (index, whole)
    CROSS JOIN to_regclass('flow_store.' || index) AS its
    LEFT JOIN pg_inherits AS part ON inhparent = to_regclass('flow_store.' || whole) AND its IS NOT NULL
    LEFT JOIN pg_class ON oid = inhrelid LEFT JOIN pg_index ON indexrelid = to_regclass(concat('flow_store.', relname, '_', index))
  WHERE its IS NULL OR inhrelid IS NOT NULL AND NOT EXISTS (
    SELECT FROM pg_index JOIN pg_inherits ON inhrelid = indexrelid WHERE indrelid = part.inhrelid AND inhparent = its)`;

/**
 * Builds the indexes that a store of an earlier version lacks, or one that was restored in part, while it is used: one partition
 * after another. No other session waits for it for longer than a second. It ends once it is done or closed: the next one
 * continues from what the server is building then.
 */
export function completeTables(url: string, dependencies: PostgresDatabaseDependencies) {
  const { logger } = dependencies;
  // Separate: its waits, which last as long as other sessions read, are no trouble of the store.
  const database = new PostgresDatabase(databasePlace(url), dependencies, { lockMs: 0 });
  const briefly = (text: string): Promise<unknown> =>
    database.transaction(async (session) => {
      for (const each of [`SET LOCAL lock_timeout = '1s'`, text]) await session.query({ text: each });
    });
  const complete = async (): Promise<true | undefined> => {
    for (;;) {
      type Lack = Readonly<{ index: string; part: string | null; isValid: boolean | null; isBusy: boolean }>;
      const [lack] = (await database.query<Lack>({ text: `${LACKS} LIMIT 1` })).rows;
      if (lack === undefined) return true;
      const { index, isBusy, isValid, part } = lack;
      if (isBusy) return undefined;
      const [table, on] = INDEXES[index] ?? [];
      if (part === null) {
        await briefly(`CREATE INDEX IF NOT EXISTS ${index} ON ONLY flow_store.${table} ${on}`);
        continue;
      }
      const name = `${part}_${index}`;
      if (isValid === false) await database.executeSql(`DROP INDEX CONCURRENTLY flow_store.${name}`);
      if (isValid !== true) {
        logger.info({ index, table: part }, 'an index is being built: what it is for is slow until then');
        await database.executeSql(`CREATE INDEX CONCURRENTLY ${name} ON flow_store.${part} ${on}`);
        logger.info({ index, table: part }, 'an index is built');
      }
      await briefly(`ALTER INDEX flow_store.${index} ATTACH PARTITION flow_store.${name}`);
    }
  };
  const completing = database.watch(complete, AGAIN_MS);
  return { close: () => Promise.all([database.close(), completing]) };
}
