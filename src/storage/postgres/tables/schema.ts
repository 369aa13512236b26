/**
 * A database with a higher version is refused. Version 1: no block has a proof, and an older program may read it; the first
 * commit with one raises it.
 */
export const POSTGRES_SCHEMA_VERSION = 2;
/** Older servers are refused. */
export const OLDEST_SERVER = 15;
/** Heights per partition: mainnet's 158 million heights are 32 partitions. */
export const PARTITION_HEIGHTS = 5_000_000;

/**
 * The data of blocks, partitioned by height: the key and the columns of each table, which are NOT NULL unless they say so. Rewinding
 * and dropping use this list. `record` and `body.value` are the bytes of the LevelDB store, checksums included.
 */
export const DATA_TABLES = {
  block: {
    key: 'height',
    columns: `height bigint, id bytea, parent_id bytea, time timestamptz NULL, collections integer,
      transactions integer, record bytea`,
  },
  body: { key: 'height, chunk', columns: 'height bigint, chunk integer, value bytea' },
  collection: {
    key: 'height, collection_index',
    columns: `height bigint, collection_index integer, id bytea, transactions integer, body_offset bigint,
      bytes integer`,
  },
  transaction: {
    key: 'height, collection_index, transaction_index',
    columns: `height bigint, collection_index integer, transaction_index integer, id bytea, payer bytea,
      proposer bytea, proposer_key bigint, sequence_number numeric(20), authorizers bytea[], script_hash bytea,
      reference_block_id bytea, gas_limit numeric(20), body_offset bigint, bytes integer`,
  },
  account_transaction: {
    key: 'address, height, collection_index, transaction_index',
    columns: `address bytea, height bigint, collection_index integer, transaction_index integer,
      roles smallint`,
  },
} as const;

/** The tables whose rows describe the stored bytes. */
export const ROW_TABLES = ['block', 'collection', 'transaction', 'account_transaction'] as const;

/** The columns of a table, in order. */
export function columnsOf(table: keyof typeof DATA_TABLES) {
  const columns = DATA_TABLES[table].columns.split(/,\s+/).map((column) => column.split(' '));
  return columns.map(([name = '', type]) => ({ name, type }));
}

/** Indexes besides the primary keys. `completeTables` recreates those that were dropped, or not restored with their tables. */
export const INDEXES: Readonly<Record<string, readonly [table: string, on: string]>> = {
  block_id: ['block', '(id)'],
  block_time: ['block', '(time)'],
  collection_id: ['collection', '(id)'],
  transaction_id: ['transaction', '(id)'],
  transaction_script: ['transaction', '(script_hash)'],
  // A few heights are removed or checked at once, which must not read a whole partition. It is small, and costs a commit nothing.
  // Ranges are filled at the same time, so a page has heights of several.
  account_transaction_height: [
    'account_transaction',
    'USING brin (height int8_minmax_multi_ops) WITH (autosummarize = on)',
  ],
};

/**
 * All tables. Users read them through the views of the schema `flow`, which hide uncovered heights; the schema
 * `flow_store` is the program's own. Everything is plain SQL of PostgreSQL 15 without extensions, exclusion constraints,
 * triggers or notifications.
 */
export const SCHEMA_STATEMENTS: readonly string[] = [
  schemaMade('flow_store'),
  // One row. `epoch` counts the writers of the live range, `commits` their writes. Every write checks both, so a writer
  // that was replaced can write nothing, and one that lost its connection finds out whether its write was committed.
  `CREATE TABLE flow_store.store (
    one smallint PRIMARY KEY CHECK (one = 1),
    schema_version integer NOT NULL,
    chain_id text NOT NULL,
    created_by text NOT NULL,
    epoch bigint NOT NULL,
    commits bigint NOT NULL
  )`,
  // Ranges that do not touch; the highest is the live one, which may be empty (to_height = from_height - 1).
  `CREATE TABLE flow_store.coverage (
    from_height bigint PRIMARY KEY,
    to_height bigint NOT NULL CHECK (to_height >= from_height - 1)
  )`,
  `CREATE TABLE flow_store.spork (
    root_height bigint PRIMARY KEY,
    spork_id text NOT NULL,
    root_parent_id text
  )`,
  // `epoch` and `commits` as in `flow_store.store`, per range.
  `CREATE TABLE flow_store.open_range (
    from_height bigint PRIMARY KEY,
    to_height bigint NOT NULL CHECK (to_height >= from_height),
    next_height bigint NOT NULL,
    failures integer NOT NULL,
    reason text,
    sporks text NOT NULL,
    epoch bigint NOT NULL,
    commits bigint NOT NULL
  )`,
  `CREATE TABLE flow_store.plan (
    id bigint PRIMARY KEY,
    from_height bigint NOT NULL,
    to_height bigint NOT NULL,
    sort_order text NOT NULL CHECK (sort_order IN ('newest', 'oldest')),
    is_paused boolean NOT NULL
  )`,
  // The processes that fill the store, and what each holds (`src/ranges/pgboss/WorkerRegistry.ts`).
  `CREATE TABLE flow_store.worker (
    id uuid PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    work_version integer NOT NULL,
    roles text NOT NULL,
    state text NOT NULL CHECK (state IN ('ready', 'running', 'stopping', 'stopped')),
    busy text NOT NULL,
    started_at timestamptz NOT NULL,
    beat bigint NOT NULL,
    beat_at timestamptz NOT NULL,
    kill text CHECK (kill IN ('finish', 'release'))
  )`,
  ...Object.entries(DATA_TABLES).map(([table, { columns, key }]) => {
    const defined = columns.replace(/(?<! NULL)(?=,|$)/g, ' NOT NULL');
    return `CREATE TABLE flow_store.${table} (${defined}, PRIMARY KEY (${key})) PARTITION BY RANGE (height)`;
  }),
  // The scripts of every block that was ever stored: a rewind keeps them.
  `CREATE TABLE flow_store.script (
    hash bytea PRIMARY KEY,
    body bytea NOT NULL
  )`,
  ...Object.entries(INDEXES).map(
    ([name, [table, on]]) => `CREATE INDEX ${name} ON flow_store.${table} ${on}`,
  ),
];

/** What views show in place of a column. */
const SEEN: Readonly<Record<string, readonly string[]>> = {
  record: [],
  body_offset: [],
  roles: ['is_payer', 'is_proposer', 'is_authorizer'].map((is, bit) => `(roles & ${1 << bit}) <> 0 AS ${is}`),
};

/** The views of the schema `flow`. */
const VIEWS: readonly (readonly [name: string, text: string])[] = [
  ['coverage', 'SELECT from_height, to_height FROM flow_store.coverage WHERE to_height >= from_height'],
  ['spork', 'SELECT root_height, spork_id, root_parent_id FROM flow_store.spork'],
  ['script', 'SELECT hash, body FROM flow_store.script'],
  ...ROW_TABLES.map((table) => {
    const columns = columnsOf(table).flatMap(({ name }) => SEEN[name] ?? name);
    const text = `SELECT ${columns.join(', ')} FROM flow_store.${table} data WHERE ${isCovered('data.height')}`;
    return [table, text] as const;
  }),
];

/** Tables that stores of earlier versions lack. */
const LATER_TABLES: readonly (readonly [name: string, statements: string])[] = [
  // One row: the heights whose blocks may have no proof. NULL in a store without any proof, so an earlier version need not know it.
  [
    'unproven',
    `CREATE TABLE flow_store.unproven (one smallint PRIMARY KEY CHECK (one = 1), heights int8multirange);
    INSERT INTO flow_store.unproven VALUES (1, NULL)`,
  ],
  // One row: the height up to which the leader has proven the chain final; NULL while it has not.
  [
    'proven',
    `CREATE TABLE flow_store.proven (one smallint PRIMARY KEY CHECK (one = 1), height bigint);
    INSERT INTO flow_store.proven VALUES (1, NULL)`,
  ],
  // Evidence of who signs from a block on: `record` is the value of LevelDB, checksum included.
  ['evidence', 'CREATE TABLE flow_store.evidence (height bigint PRIMARY KEY, record bytea NOT NULL)'],
];

/** What every start makes where it is missing, as in a store of an earlier version or one that was restored in part. */
export const UPKEEP_STATEMENTS: readonly string[] = [
  ...['flow', 'flow_jobs'].map(schemaMade),
  ...LATER_TABLES.map(([table, statements]) => unless(existsIn('flow_store', table), statements)),
  unless(
    `EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'flow_store.plan'::regclass AND attname = 'heals')`,
    'ALTER TABLE flow_store.plan ADD COLUMN heals boolean NOT NULL DEFAULT false',
  ),
  ...VIEWS.map(([view, text]) => unless(existsIn('flow', view), `CREATE VIEW flow.${view} AS ${text}`)),
];

/**
 * A condition that holds for covered heights. It reads the ranges once and remains a filter, so that `max(height)` takes the
 * last entry of an index: a join would take every row. The planner expects a `coalesce` to hold for every other row, not a few.
 */
export function isCovered(height: string): string {
  const covered = 'SELECT range_agg(int8range(from_height, to_height + 1)) FROM flow_store.coverage';
  return `coalesce(${height} <@ (${covered}), false)`;
}

/** Creates a schema unless it exists: where this user may not create it, an administrator has. */
function schemaMade(name: string): string {
  return unless(`to_regnamespace('${name}') IS NOT NULL`, `CREATE SCHEMA ${name}`);
}

function existsIn(schema: string, relation: string): string {
  const where = `relnamespace = to_regnamespace('${schema}') AND relname = '${relation}'`;
  return `EXISTS (SELECT FROM pg_class WHERE ${where})`;
}

/** Runs statements unless a condition holds. */
export function unless(condition: string, statements: string): string {
  return `DO $$ BEGIN IF NOT ${condition} THEN ${statements}; END IF; END $$`;
}
