import { createHash } from 'node:crypto';
import { accountsOf, decodeTransaction, paddedIdentifier, toAddress } from '../../../flow/index.js';
import { outcomeOf, unchanged, type RepairOptions, type RepairReport } from '../../integrity/repair.js';
import type { VerifyDependencies } from '../../integrity/verify/verifyStore.js';
import type { CheckedHeights } from '../../port/IndexStore.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import type { HeightRange } from '../../port/stored.js';
import { assembleEntry, proofChecker } from '../../records/blocks/assembleBlock.js';
import { isDamagedEvidence, openEvidence } from '../../records/blocks/committeeEvidence.js';
import { repairedBook, type RepairedBook } from '../../records/book/repairedBook.js';
import { heightsIn, rangesAt, slicesOf, within, without } from '../../records/heightRanges.js';
import type { HeightRanges } from '../../records/heightRanges.js';
import { parseHeightKey, Prefix } from '../../records/schema.js';
import { StorageError, unlessDamaged } from '../../StorageError.js';
import { checkCovered, checkHeights, extentOf, rangeToCheck, reportOf } from '../../verify/checkHeights.js';
import type { HeightTask, StoredHeight, VerifyOptions, VerifyProgress } from '../../verify/checkHeights.js';
import { DamageList, type DamageKind, type VerifyReport } from '../../verify/DamageList.js';
import { databasePlace } from '../connection/databasePlace.js';
import { PostgresDatabase, type PostgresDatabaseDependencies } from '../connection/PostgresDatabase.js';
import type { Rows, Session, WriteSession } from '../connection/Session.js';
import { blockRows, microsecondsOf } from '../tables/blockRows.js';
import { deleteBlocks, readBook, readHeads, readStored, readStrays, writeBook } from '../tables/bookRows.js';
import { prepareDatabase, readEvidence } from '../tables/prepareDatabase.js';
import { columnsOf, ROW_TABLES } from '../tables/schema.js';
import { scriptsSeen } from '../tables/scriptsSeen.js';
import { deleteAbove } from '../writing/changeRows.js';
import { takeFence } from '../writing/takeFence.js';

/** Heights read at once. */
const HEIGHTS_AT_ONCE = 50;
/** Heights whose rows one transaction rebuilds. */
const HEIGHTS_REBUILT = 10;
/** Scripts hashed by one statement: all of them would take longer than one may. */
const SCRIPTS_AT_ONCE = 1_000;
/** Blocks outside all ranges; scripts that are not named again. */
const MAX_NAMED = 100;

interface Where {
  readonly url: string;
  readonly chainId: string;
  /** As `PostgresIndexStoreOptions.patienceMs`. */
  readonly patienceMs?: number | undefined;
}

type Dependencies = VerifyDependencies & PostgresDatabaseDependencies;

/**
 * Like `verifyStore`, for a database: checks the bytes of every height, and compares all its rows with them. May run
 * beside a daemon. Expected errors: those of `PostgresIndexStore.open`; `OperatorError` (`usage`, heights outside the
 * store); the signal's abort reason.
 */
export function verifyPostgres(
  options: VerifyOptions & Where,
  dependencies: Dependencies,
): Promise<VerifyReport> {
  return onDatabase(options, dependencies, (database) => verified(database, options, dependencies));
}

/**
 * Like `repairStore`, for a database: rows of a sound block are rebuilt from its bytes, heights whose block is damaged or
 * lost become planned holes, and nothing else is touched. With `apply` it replaces the process that leads; when another
 * process replaces it in turn, its further writes are refused. Processes that fill in history or serve readers may run;
 * the worker of a range with a damaged height loses the range, which continues from there. An interrupted repair can be
 * run again. `lastPlan`: plan ids up to this one are in use, as their jobs may still exist.
 *
 * Expected errors: those of `verifyPostgres`; `StorageError` (`locked`: another process leads now; `corrupt`).
 */
export function repairPostgres(
  { apply, lastPlan = 0, ...where }: Where & Pick<RepairOptions, 'apply'> & { readonly lastPlan?: number },
  dependencies: Dependencies,
): Promise<RepairReport> {
  return onDatabase(where, dependencies, async (database) => {
    // From here on no other process changes the live range.
    const take = () => database.transaction((session) => takeFence(database, session));
    const fence = apply ? await database.begin(take, {}) : undefined;
    const found = await verified(database, where, dependencies);
    const { damageCount, damagedHeights, lostHeights } = found;
    const report = unchanged(found);
    if (damageCount === 0) return report;
    if (fence === undefined)
      return { ...report, ...outcomeOf(repairedBook(await readBook(database), lostHeights)) };
    for (const some of slicesOf(without(damagedHeights, lostHeights), HEIGHTS_REBUILT)) {
      dependencies.signal?.throwIfAborted();
      await fence.write((session) => rebuildRows(session, some));
    }
    const repaired = await fence.write((session) => forgetDamage(session, lostHeights, lastPlan));
    const [left] = (await verified(database, where, dependencies)).damages;
    if (left === undefined) return { ...report, ...outcomeOf(repaired), applied: true };
    throw new StorageError(
      'corrupt',
      `The store at ${database.place} is still damaged after the repair: ${left.message}. Check the disks of the ` +
        'database, run "verify" again, and restore the database from a copy if damage remains.',
    );
  });
}

async function onDatabase<T>(
  { chainId, patienceMs, url }: Where,
  dependencies: PostgresDatabaseDependencies,
  use: (database: PostgresDatabase) => Promise<T>,
): Promise<T> {
  const database = new PostgresDatabase(databasePlace(url), dependencies, { patienceMs });
  try {
    await database.begin(() => prepareDatabase(database, { chainId, create: false, isReadOnly: true }), {});
    return await use(database);
  } finally {
    await database.close();
  }
}

async function verified(
  database: PostgresDatabase,
  options: VerifyOptions,
  { onProgress, signal }: VerifyDependencies,
): Promise<VerifyReport> {
  const { chainId, from, objectionTo, to } = options;
  const { patient } = database;
  const atOneMoment = <T>(read: (session: Session) => Promise<T>) =>
    database.persist(() => database.snapshot(read));
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
  /** The rows that these few heights must have: the sound ones, as those of a damaged height are unknown. */
  const expected = new Map<number, Set<string>>();
  /** Scripts that are named already: one height that has a script is enough to repair it. */
  const named = new Set<string>();
  let pointers = 0;
  const compareRows = async ({ from, to }: HeightRange): Promise<void> => {
    const found = await database.query<RowText>({ text: ROWS, values: [from, to] });
    const wrong = (height: number, row: string, kind: DamageKind, what: string): void =>
      damages.add(kind, height, `row of ${row.split(' ', 1)[0]} of height ${height}: it is ${what}`);
    for (const { height, row } of found.rows) {
      const rows = expected.get(height);
      if (rows === undefined) continue;
      pointers += 1;
      if (!rows.delete(row)) wrong(height, row, 'unexpected', 'not what its block says');
    }
    for (const [height, rows] of expected) for (const row of rows) wrong(height, row, 'pointer', 'missing');
    for (const { height, hash } of await badScripts(database, [...expected.keys()])) {
      if (named.has(hash)) continue;
      if (named.size < MAX_NAMED) named.add(hash);
      damages.add('pointer', height, `script ${hash} of height ${height}: it is missing, or was changed`);
    }
    expected.clear();
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
    onSound: (entry) => void expected.set(entry.block.height, new Set(expectedRows(entry))),
  });
  return { ...counts, pointers };
}

/** Of the scripts of these heights: those that are missing, or have another body, and the lowest of the heights that has each. */
async function badScripts(session: Session, heights: readonly number[]) {
  const text = `SELECT height, encode(script_hash, 'hex') AS hash FROM (
      SELECT script_hash, min(height) AS height FROM flow_store.transaction WHERE height = ANY ($1) GROUP BY 1
    ) AS used LEFT JOIN flow_store.script ON hash = script_hash WHERE sha256(body) IS DISTINCT FROM script_hash`;
  return (await session.query<{ height: number; hash: string }>({ text, values: [heights] })).rows;
}

/** Repairs the scripts of heights that are about to leave the index: other heights may have them, too. */
export async function repairScripts(session: WriteSession, leaving: HeightRanges): Promise<void> {
  for (const { height } of await badScripts(session, [...heightsIn(leaving)]))
    await unlessDamaged(() => rebuildRows(session, { from: height, to: height }));
}

type ScriptRow = Readonly<{ hash: string; isSound: boolean }>;

/** `onSome` is called now and then with how many are checked, and may throw, to stop. */
async function checkScripts(database: Session, damages: DamageList, onSome: (count: number) => void) {
  const text = `SELECT encode(hash, 'hex') AS hash, sha256(body) = hash AS "isSound" FROM flow_store.script
    WHERE hash > decode($1, 'hex') ORDER BY script.hash LIMIT ${SCRIPTS_AT_ONCE}`;
  let count = 0;
  let last: string | undefined = '';
  do {
    const { rows }: Rows<ScriptRow> = await database.query({ text, values: [last] });
    for (const { hash, isSound } of rows)
      if (!isSound) damages.add('pointer', undefined, `script ${hash}: its body does not match its hash`);
    last = rows[SCRIPTS_AT_ONCE - 1]?.hash;
    onSome((count += rows.length));
  } while (last !== undefined);
}

/**
 * What is compared of a column, if not the column itself. A store of a build before 0.1.0 may have null for no time, and
 * reference ids of another length as they came.
 */
const COMPARED: Readonly<Record<string, readonly string[]>> = {
  height: [],
  record: [],
  time: [
    `(extract(epoch FROM coalesce(time, '0001-01-01 00:00:00+00') - timestamptz '2000-01-01 00:00:00+00') * 1000000)::bigint`,
  ],
  reference_block_id: [`rpad(encode(reference_block_id, 'hex'), 64, '0')`],
};

type RowText = Readonly<{ height: number; row: string }>;
/** The rows of some heights, as texts: the table, and its columns in order. */
const ROWS = ROW_TABLES.map((table) => {
  const columns = columnsOf(table).flatMap(({ name }) => COMPARED[name] ?? name);
  return `SELECT height, '${table} ' || concat_ws('|', ${columns.join()}) AS row
    FROM flow_store.${table} WHERE height BETWEEN $1 AND $2`;
}).join(' UNION ALL ');

const ID_BYTES = 32;

/** As PostgreSQL writes bytes. */
const hex = (bytes: Uint8Array): string => `\\x${Buffer.from(bytes).toString('hex')}`;
const addressText = (bytes: Uint8Array = new Uint8Array()): string => `\\x${toAddress(bytes)}`;

/** The rows that a block must have, as texts like those of `ROWS`. Derived from the decoded block, not with the code that writes the rows. */
function* expectedRows({ block, collections }: BlockEntry): Generator<string> {
  const { id, parentId, encoded } = block;
  const rowOf = (table: string, ...values: readonly (string | number | bigint)[]): string =>
    `${table} ${values.join('|')}`;
  let [bodyOffset, transactions] = [0, 0];
  for (const [collectionIndex, collection] of collections.entries()) {
    const { ranges, transactionIds } = collection;
    const count = ranges.length / 2;
    const bytes = collection.encoded.length;
    yield rowOf('collection', collectionIndex, `\\x${collection.id}`, count, bodyOffset, bytes);
    for (let index = 0; index < count; index += 1) {
      const start = ranges[2 * index] as number;
      const wire = collection.encoded.subarray(start, start + (ranges[2 * index + 1] as number));
      const { authorizers, gasLimit, payer, proposalKey, referenceBlockId, script } = decodeTransaction(wire);
      yield rowOf(
        'transaction',
        ...[collectionIndex, index, hex(transactionIds.subarray(index * ID_BYTES, (index + 1) * ID_BYTES))],
        ...[addressText(payer), addressText(proposalKey?.address), proposalKey?.keyId ?? 0],
        proposalKey?.sequenceNumber ?? 0,
        `{${authorizers.map((each) => `"\\${addressText(each)}"`).join()}}`,
        hex(createHash('sha256').update(script).digest()),
        ...[paddedIdentifier(referenceBlockId), gasLimit, bodyOffset + start, wire.length],
      );
      for (const { address, roles } of accountsOf(wire))
        yield rowOf('account_transaction', `\\x${address}`, collectionIndex, index, roles);
    }
    transactions += count;
    bodyOffset += bytes;
  }
  const ids = [`\\x${id}`, `\\x${parentId}`];
  yield rowOf('block', ...ids, microsecondsOf(encoded), collections.length, transactions);
}

/** Rebuilds every row of sound blocks from their bytes. Expected errors: those of the session; `StorageError` (`corrupt`). */
async function rebuildRows(session: WriteSession, range: HeightRange): Promise<void> {
  const rows = blockRows(scriptsSeen());
  for await (const { height, body, record } of readStored(session, range)) {
    if (record === undefined) continue;
    rows.add(assembleEntry(height, record, body));
    await deleteBlocks(session, height, height);
  }
  for (const step of rows.steps()) session.later(step);
}

/**
 * Deletes lost heights and blocks outside all ranges; the others become the book. Damaged evidence goes as well, which nodes are
 * asked for again, and scripts that are still damaged, which no sound block has.
 */
async function forgetDamage(
  session: WriteSession,
  lost: HeightRanges,
  lastPlan: number,
): Promise<RepairedBook> {
  const bad: (number | undefined)[] = [];
  for (const entry of await readEvidence(session))
    if (await isDamagedEvidence(entry)) bad.push(parseHeightKey(Prefix.evidence, entry[0]));
  await session.query({ text: 'DELETE FROM flow_store.evidence WHERE height = ANY ($1)', values: [bad] });
  await session.query({ text: 'DELETE FROM flow_store.script WHERE sha256(body) <> hash' });
  const before = await readBook(session);
  const repaired = repairedBook(before, lost, lastPlan);
  const { latestIndexedHeight } = repaired.book;
  for (const { from, to } of lost) await deleteBlocks(session, from, to);
  if (latestIndexedHeight < before.latestIndexedHeight) await deleteAbove(session, latestIndexedHeight);
  await writeBook(session, before, repaired.book);
  for (const { from, to } of rangesAt(await readStrays(session))) await deleteBlocks(session, from, to);
  return repaired;
}
