import { createHash } from 'node:crypto';
import type { VerifyDependencies } from '../../integrity/verify/verifyStore.js';
import type { CheckedHeights } from '../../port/IndexStore.js';
import type { HeightRange } from '../../port/stored.js';
import { proofChecker } from '../../records/blocks/assembleBlock.js';
import { openEvidence } from '../../records/blocks/committeeEvidence.js';
import { slicesOf, within } from '../../records/heightRanges.js';
import { checkCovered, checkHeights, extentOf, rangeToCheck, reportOf } from '../../verify/checkHeights.js';
import type { HeightTask, StoredHeight, VerifyOptions, VerifyProgress } from '../../verify/checkHeights.js';
import { DamageList, type VerifyReport } from '../../verify/DamageList.js';
import { databasePlace } from '../connection/databasePlace.js';
import { PostgresDatabase, type PostgresDatabaseDependencies } from '../connection/PostgresDatabase.js';
import type { Session } from '../connection/Session.js';
import { readBook, readHeads, readStored, readStrays } from '../tables/bookRows.js';
import { prepareDatabase, readEvidence } from '../tables/prepareDatabase.js';
import {
  accountsOf,
  decodeTransaction,
  identifierBytes,
  paddedIdentifier,
  toAddress,
} from '../../../flow/index.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import { microsecondsOf } from '../tables/BlockRows.js';

/** Heights read at once. */
const HEIGHTS_AT_ONCE = 50;
/** Scripts hashed by one statement: all of them would take longer than one may. */
const SCRIPTS_AT_ONCE = 1_000;
/** Blocks outside all ranges. */
const MAX_NAMED = 100;

export type PostgresVerifyDependencies = VerifyDependencies & PostgresDatabaseDependencies;

/**
 * Like `verifyStore`, for a database: checks the bytes of every height, and compares all its rows with them. May run
 * beside a daemon. `patienceMs`: as `PostgresIndexStoreOptions.patienceMs`. Expected errors: those of `PostgresIndexStore.open`; `OperatorError` (`usage`, heights outside the
 * store); the signal's abort reason.
 */
export async function verifyPostgres(
  options: VerifyOptions & { readonly url: string; readonly patienceMs?: number | undefined },
  { clock, logger, onProgress, signal }: PostgresVerifyDependencies,
): Promise<VerifyReport> {
  const { chainId, from, objectionTo, patienceMs, to, url } = options;
  const database = new PostgresDatabase(databasePlace(url), { clock, logger }, { patienceMs });
  const { patient } = database;
  const atOneMoment = <T>(read: (session: Session) => Promise<T>) =>
    database.persist(() => database.snapshot(read));
  try {
    await database.begin(() => prepareDatabase(database, { chainId, create: false, isReadOnly: true }), {});
    const seen = new DamageList();
    const extent = await atOneMoment(extentIn);
    const range = rangeToCheck(options, extent, seen);
    const tell = (progress: VerifyProgress): void => {
      signal?.throwIfAborted();
      onProgress?.(progress);
    };
    const onHeight = (height: number): void => tell({ phase: 'blocks', height, ...range });
    const task = { holds: proofChecker(chainId), objectionTo, onHeight };
    const counts = await checkRows(patient, { ...task, extent, range, damages: seen });
    const { damagedHeights } = seen.report();
    // What others change during the pass, a rewind or a heal, looks like damage: it is looked at once more.
    const damages = await atOneMoment(async (session) => {
      const left = new DamageList();
      const now = { ...task, extent: await extentIn(session), damages: left };
      for (const some of damagedHeights) await checkRows(session, { ...now, range: some });
      return left;
    });
    if (from === undefined && to === undefined) {
      for (const height of await atOneMoment((session) => readStrays(session, MAX_NAMED)))
        damages.add('unexpected', height, `block of height ${height}: no range has this height`);
      for (const entry of await readEvidence(patient))
        await damages.unlessIn('store_record', () => openEvidence(entry));
      await checkScripts(patient, damages, (scripts) =>
        tell({ phase: 'pointers', pointers: counts.pointers + scripts }),
      );
    }
    const { latestIndexedHeight } = extent;
    return reportOf(damages, { range, latestIndexedHeight, ...counts });
  } finally {
    await database.close();
  }
}

/** What the database holds at this moment. Expected errors: those of `readBook` and `readHeads`. */
async function extentIn(session: Session) {
  const book = await readBook(session);
  const waiting = await readHeads(session, book.latestIndexedHeight + 1, Number.MAX_SAFE_INTEGER);
  return { ...extentOf(book, waiting.at(-1)?.height), latestIndexedHeight: book.coverage.at(-1)?.to };
}

/** Like `IndexStore.check`. Expected errors: those of the session; the signal's abort reason. */
export function checkStored(
  database: Session,
  range: HeightRange,
  how: Pick<HeightTask, 'holds'> & { readonly signal: AbortSignal | undefined },
): Promise<CheckedHeights> {
  const bookOf = () => readBook(database);
  return checkCovered(range, bookOf, how, (task) => checkRows(database, task));
}

/** The heights of a database, and all rows of theirs: those of a few heights at once, after the heights themselves. */
async function checkRows(database: Session, task: HeightTask) {
  const { damages, extent, range } = task;
  /** The sound heights of these few, and the rows that they must have. */
  const [sound, expected] = [new Set<number>(), new Set<string>()];
  let pointers = 0;
  const compareRows = async ({ from, to }: HeightRange): Promise<void> => {
    const found = await database.query<RowText>({ text: ROWS, values: [from, to] });
    for (const { table, height, row } of found.rows) {
      // Nobody knows what the rows of a damaged height should be.
      if (!sound.has(height)) continue;
      pointers += 1;
      if (!expected.delete(`${table} ${height} ${row}`))
        damages.add(
          'unexpected',
          height,
          `row of ${table} of height ${height}: it is not what its block says`,
        );
    }
    for (const missing of expected) {
      const [table, height] = missing.split(' ', 2);
      damages.add('pointer', Number(height), `row of ${table} of height ${height}: it is missing`);
    }
    expected.clear();
    sound.clear();
  };
  const heights = async function* (): AsyncGenerator<StoredHeight, void> {
    for (const some of slicesOf(within(extent.allowed, range), HEIGHTS_AT_ONCE)) {
      yield* readStored(database, some);
      await compareRows(some);
    }
  };
  const counts = await checkHeights(heights(), {
    ...task,
    headAt: async (height) => (await readHeads(database, height, height))[0],
    onSound: (entry) => {
      sound.add(entry.block.height);
      for (const row of expectedRows(entry)) expected.add(row);
      return undefined;
    },
  });
  return { ...counts, pointers };
}

/** `onSome` is told now and then how many are checked, and may throw, to stop. */
async function checkScripts(database: Session, damages: DamageList, onSome: (count: number) => void) {
  const text = `SELECT encode(hash, 'hex') AS hash, sha256(body) = hash AS "isSound" FROM flow_store.script
    WHERE hash > decode($1, 'hex') ORDER BY script.hash LIMIT ${SCRIPTS_AT_ONCE}`;
  const read = (above: string) =>
    database.query<{ hash: string; isSound: boolean }>({ text, values: [above] });
  let count = 0;
  for (let last: string | undefined = ''; last !== undefined;) {
    const { rows } = await read(last);
    for (const { hash, isSound } of rows)
      if (!isSound) damages.add('pointer', undefined, `script ${hash}: its body does not match its hash`);
    last = rows[SCRIPTS_AT_ONCE - 1]?.hash;
    onSome((count += rows.length));
  }
}

/**
 * The columns of each table, as texts that are the same for a row of the database and one that is derived from a block's bytes.
 * A store of a build before 0.1.0 may have null for no time, and reference ids of another length as they came.
 */
const COLUMNS: Readonly<Record<string, string>> = {
  block: `encode(id, 'hex'), encode(parent_id, 'hex'),
    (extract(epoch FROM coalesce(time, '0001-01-01 00:00:00+00')) * 1000000)::bigint, collections, transactions`,
  collection: `collection_index, encode(id, 'hex'), transactions, body_offset, bytes`,
  transaction: `collection_index, transaction_index, encode(id, 'hex'), encode(payer, 'hex'),
    encode(proposer, 'hex'), proposer_key, sequence_number, authorizers::text, encode(script_hash, 'hex'),
    rpad(encode(reference_block_id, 'hex'), 64, '0'), gas_limit, body_offset, bytes,
    (SELECT count(*) FROM flow_store.script WHERE hash = script_hash)`,
  account_transaction: `encode(address, 'hex'), collection_index, transaction_index, roles`,
};

type RowText = Readonly<{ table: string; height: number; row: string }>;
/** The rows of some heights. */
const ROWS = Object.entries(COLUMNS)
  .map(
    ([table, columns]) => `SELECT '${table}' AS table, height, concat_ws('|', ${columns}) AS row
      FROM flow_store.${table} WHERE height BETWEEN $1 AND $2`,
  )
  .join(' UNION ALL ');

const EPOCH_2000_MICROSECONDS = 946_684_800_000_000n;
const ID_BYTES = 32;

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/**
 * The rows that a block must have, as texts like those of `verifyPostgres`: `table height row`. Derived from the decoded
 * block, not with the code that writes the rows.
 */
function* expectedRows({ block, collections }: BlockEntry): Generator<string> {
  const { height, id, parentId, encoded } = block;
  const rowOf = (table: string, ...values: readonly (string | number | bigint)[]): string =>
    `${table} ${height} ${values.join('|')}`;
  let [bodyOffset, transactions] = [0, 0];
  for (const [collectionIndex, collection] of collections.entries()) {
    const { ranges, transactionIds } = collection;
    const count = ranges.length / 2;
    const bytes = collection.encoded.length;
    yield rowOf('collection', collectionIndex, hex(identifierBytes(collection.id)), count, bodyOffset, bytes);
    for (let index = 0; index < count; index += 1) {
      const start = ranges[2 * index] as number;
      const wire = collection.encoded.subarray(start, start + (ranges[2 * index + 1] as number));
      const { authorizers, gasLimit, payer, proposalKey, referenceBlockId, script } = decodeTransaction(wire);
      yield rowOf(
        'transaction',
        ...[collectionIndex, index, hex(transactionIds.subarray(index * ID_BYTES, (index + 1) * ID_BYTES))],
        ...[toAddress(payer), toAddress(proposalKey?.address ?? new Uint8Array()), proposalKey?.keyId ?? 0],
        proposalKey?.sequenceNumber ?? 0,
        `{${authorizers.map((each) => `"\\\\x${toAddress(each)}"`).join()}}`,
        createHash('sha256').update(script).digest('hex'),
        ...[paddedIdentifier(referenceBlockId), gasLimit, bodyOffset + start, wire.length],
        // The number of scripts with this hash.
        1,
      );
      for (const { address, roles } of accountsOf(wire))
        yield rowOf('account_transaction', address, collectionIndex, index, roles);
    }
    transactions += count;
    bodyOffset += bytes;
  }
  const time = microsecondsOf(encoded) + EPOCH_2000_MICROSECONDS;
  const ids = [id, parentId].map((each) => hex(identifierBytes(each)));
  yield rowOf('block', ...ids, time, collections.length, transactions);
}
