/**
 * A database with a higher version is refused. Version 1: no block has a proof, and an older program may read it; the first
 * commit with one raises it.
 */
export const POSTGRES_SCHEMA_VERSION = 2;
/** Older servers are refused. */
export const OLDEST_SERVER = 15;
/** Heights per partition: mainnet's 158 million heights are 32 partitions. */
export const PARTITION_HEIGHTS = 5_000_000;

/** The data of blocks, partitioned by height. Rewinding, dropping and verifying use this list. */
export const DATA_TABLES = ['block', 'body', 'collection', 'transaction', 'account_transaction'] as const;

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

/** What a store of an earlier version lacks, besides what `SCHEMA_STATEMENTS` make. */
export const LATER_STATEMENTS: readonly string[] = [
  // One row: the heights whose blocks may have no proof. NULL in a store without any proof, so an earlier version needs not know it.
  'CREATE TABLE IF NOT EXISTS flow_store.unproven (one smallint PRIMARY KEY CHECK (one = 1), heights int8multirange)',
  'INSERT INTO flow_store.unproven VALUES (1, NULL) ON CONFLICT DO NOTHING',
  // One row: the height up to which the leader has proven the chain final; NULL while it has not.
  'CREATE TABLE IF NOT EXISTS flow_store.proven (one smallint PRIMARY KEY CHECK (one = 1), height bigint)',
  'INSERT INTO flow_store.proven VALUES (1, NULL) ON CONFLICT DO NOTHING',
  // What says who signs from a block on: `record` is the value of LevelDB, checksum included.
  'CREATE TABLE IF NOT EXISTS flow_store.evidence (height bigint PRIMARY KEY, record bytea NOT NULL)',
  // Last: it keeps everybody from reading plans.
  'ALTER TABLE flow_store.plan ADD COLUMN IF NOT EXISTS heals boolean NOT NULL DEFAULT false',
];

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
  // `record` and `body.value` are the bytes of the LevelDB store, checksums included.
  `CREATE TABLE flow_store.block (
    height bigint NOT NULL,
    id bytea NOT NULL,
    parent_id bytea NOT NULL,
    time timestamptz,
    collections integer NOT NULL,
    transactions integer NOT NULL,
    record bytea NOT NULL,
    PRIMARY KEY (height)
  ) PARTITION BY RANGE (height)`,
  `CREATE TABLE flow_store.body (
    height bigint NOT NULL,
    chunk integer NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (height, chunk)
  ) PARTITION BY RANGE (height)`,
  `CREATE TABLE flow_store.collection (
    height bigint NOT NULL,
    collection_index integer NOT NULL,
    id bytea NOT NULL,
    transactions integer NOT NULL,
    body_offset bigint NOT NULL,
    bytes integer NOT NULL,
    PRIMARY KEY (height, collection_index)
  ) PARTITION BY RANGE (height)`,
  `CREATE TABLE flow_store.transaction (
    height bigint NOT NULL,
    collection_index integer NOT NULL,
    transaction_index integer NOT NULL,
    id bytea NOT NULL,
    payer bytea NOT NULL,
    proposer bytea NOT NULL,
    proposer_key bigint NOT NULL,
    sequence_number numeric(20, 0) NOT NULL,
    authorizers bytea[] NOT NULL,
    script_hash bytea NOT NULL,
    reference_block_id bytea NOT NULL,
    gas_limit numeric(20, 0) NOT NULL,
    body_offset bigint NOT NULL,
    bytes integer NOT NULL,
    PRIMARY KEY (height, collection_index, transaction_index)
  ) PARTITION BY RANGE (height)`,
  `CREATE TABLE flow_store.account_transaction (
    address bytea NOT NULL,
    height bigint NOT NULL,
    collection_index integer NOT NULL,
    transaction_index integer NOT NULL,
    roles smallint NOT NULL,
    PRIMARY KEY (address, height, collection_index, transaction_index)
  ) PARTITION BY RANGE (height)`,
  // The scripts of every block that was ever stored: a rewind keeps them.
  `CREATE TABLE flow_store.script (
    hash bytea PRIMARY KEY,
    body bytea NOT NULL
  )`,
  ...Object.entries(INDEXES).map(
    ([name, [table, on]]) => `CREATE INDEX ${name} ON flow_store.${table} ${on}`,
  ),
];

const SEEN = {
  block: ['height', 'id', 'parent_id', 'time', 'collections', 'transactions'],
  collection: ['height', 'collection_index', 'id', 'transactions', 'bytes'],
  transaction: [
    ...['height', 'collection_index', 'transaction_index', 'id', 'payer', 'proposer', 'proposer_key'],
    ...['sequence_number', 'authorizers', 'script_hash', 'reference_block_id', 'gas_limit', 'bytes'],
  ],
  account_transaction: [
    ...['address', 'height', 'collection_index', 'transaction_index', '(roles & 1) <> 0 AS is_payer'],
    ...['(roles & 2) <> 0 AS is_proposer', '(roles & 4) <> 0 AS is_authorizer'],
  ],
};

/** The views of the schema `flow`. A start makes again what was dropped, or not restored with the tables. */
export const VIEWS: ReadonlyMap<string, string> = new Map([
  ['coverage', 'SELECT from_height, to_height FROM flow_store.coverage WHERE to_height >= from_height'],
  ['spork', 'SELECT root_height, spork_id, root_parent_id FROM flow_store.spork'],
  ['script', 'SELECT hash, body FROM flow_store.script'],
  ...Object.entries(SEEN).map(
    ([table, columns]) =>
      [
        table,
        `SELECT ${columns.join(', ')} FROM flow_store.${table} data WHERE ${isCovered('data.height')}`,
      ] as const,
  ),
]);

/**
 * A condition that holds for covered heights. It reads the ranges once and remains a filter, so that `max(height)` takes the
 * last entry of an index: a join would take every row. Within `coalesce` it counts as true of every other row, not of a few.
 */
export function isCovered(height: string): string {
  const covered = 'SELECT range_agg(int8range(from_height, to_height + 1)) FROM flow_store.coverage';
  return `coalesce(${height} <@ (${covered}), false)`;
}

/** Makes a schema, which somebody who may do so has made already where this user may not. */
export function schemaMade(name: string): string {
  return `DO $$ BEGIN IF to_regnamespace('${name}') IS NULL THEN CREATE SCHEMA ${name}; END IF; END $$`;
}
