import type { FinalizedBlock } from '../../../flow/index.js';
import { abortReason, OperatorError } from '../../../runtime/index.js';
import { DamageList } from '../../integrity/verify/DamageList.js';
import type { CheckedRange, StoredRange, VerifyReport } from '../../integrity/verify/DamageList.js';
import type { VerifyDependencies, VerifyOptions } from '../../integrity/verify/verifyStore.js';
import type { CheckedHeights } from '../../port/IndexStore.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import type { BlockHead, HeightRange, SporkRecord } from '../../port/stored.js';
import { assembleEntry, proofChecker } from '../../records/blocks/assembleBlock.js';
import { openEvidence } from '../../records/blocks/committeeEvidence.js';
import { isConfirmedRoot } from '../../records/book/applyCommit.js';
import { contains, rangesInWords, within } from '../../records/heightRanges.js';
import { bodyChunks } from '../../records/schema.js';
import { databasePlace } from '../connection/databasePlace.js';
import { PostgresDatabase } from '../connection/PostgresDatabase.js';
import type { PostgresDatabaseDependencies } from '../connection/PostgresDatabase.js';
import type { Session } from '../connection/Session.js';
import { readEvidence } from '../reading/evidenceRows.js';
import { readStored } from '../reading/readStored.js';
import type { Stored } from '../reading/readStored.js';
import { prepareDatabase } from '../tables/prepareDatabase.js';
import { readCoverage, readHeads, readOpenRanges, readSporks } from '../tables/readState.js';
import { isCovered } from '../tables/schema.js';
import { ExpectedRows } from './ExpectedRows.js';

/** Heights read at once. */
const HEIGHTS_AT_ONCE = 50;
const MAX_DAMAGES = 1000;

export type PostgresVerifyOptions = Pick<VerifyOptions, 'chainId' | 'from' | 'to' | 'objectionTo'> & {
  readonly url: string;
};
export type PostgresVerifyDependencies = Pick<VerifyDependencies, 'onProgress' | 'signal'> &
  PostgresDatabaseDependencies;

interface Pass {
  readonly database: Session;
  readonly damages: DamageList;
  readonly sporks: readonly SporkRecord[];
  readonly signal: AbortSignal | undefined;
  readonly counts: {
    heights: number;
    collections: number;
    transactions: number;
    bytes: number;
    proven: number;
    pointers: number;
  };
  /** See `proofChecker`. */
  readonly holds: (block: FinalizedBlock) => boolean;
  readonly objectionTo: VerifyOptions['objectionTo'];
}

/**
 * Like `verifyStore`, for a database: reads every covered height, checks and rehashes its bytes, and compares all its
 * rows with them. May run beside a daemon. Expected errors: those of `PostgresIndexStore.open`; `OperatorError` (`usage`,
 * heights that are not covered); the signal's abort reason.
 */
export async function verifyPostgres(
  { url, chainId, from, to, objectionTo }: PostgresVerifyOptions,
  { clock, logger, onProgress, signal }: PostgresVerifyDependencies,
): Promise<VerifyReport> {
  const database = new PostgresDatabase(databasePlace(url), { clock, logger });
  try {
    await prepareDatabase(database, { chainId, create: false, isReadOnly: true });
    const whole = await readCoverage(database);
    const covered = whole.filter((range) => range.to >= range.from);
    const asked = rangesOf(covered, { from, to });
    const damages = new DamageList({ max: MAX_DAMAGES });
    const counts = { heights: 0, collections: 0, transactions: 0, bytes: 0, proven: 0, pointers: 0 };
    const sporks = await readSporks(database);
    const holds = proofChecker(chainId);
    const pass: Pass = { database, damages, counts, signal, sporks, holds, objectionTo };
    const ranges: CheckedRange[] = [];
    for (const range of asked) {
      const kind = range.to === covered.at(-1)?.to ? 'live' : 'published';
      const onStep = (height: number): void => onProgress?.({ phase: 'blocks', height, ...range });
      ranges.push(await checkRange(pass, { ...range, kind }, { next: Infinity, onStep }));
    }
    if (from === undefined && to === undefined) {
      const open = await readOpenRanges(database);
      for (const { next, ...range } of open) {
        ranges.push(await checkRange(pass, { ...range, kind: 'open' }, { next }));
      }
      await checkRest(database, { damages, open });
    }
    const latestIndexedHeight = whole.at(-1)?.to;
    return {
      ...counts,
      range: spanOf(asked),
      latestIndexedHeight,
      waiting: await waitingAbove(database, latestIndexedHeight),
      ...damages.report(ranges),
    };
  } finally {
    await database.close();
  }
}

function rangesOf(
  covered: readonly HeightRange[],
  { from, to }: Pick<VerifyOptions, 'from' | 'to'>,
): readonly HeightRange[] {
  const first = covered[0]?.from ?? 0;
  const last = covered.at(-1)?.to ?? -1;
  const asked = { from: from ?? first, to: to ?? last };
  const isNamed = from !== undefined || to !== undefined;
  if (isNamed && (asked.from > asked.to || !contains(covered, asked.from) || !contains(covered, asked.to))) {
    throw new OperatorError(
      'usage',
      `Cannot verify heights ${asked.from} to ${asked.to}: the store holds heights ${rangesInWords(covered)}.`,
    );
  }
  return within(covered, asked);
}

function spanOf(ranges: readonly HeightRange[]): HeightRange | undefined {
  const [first] = ranges;
  const last = ranges.at(-1);
  return first && last && { from: first.from, to: last.to };
}

/** Like `IndexStore.check`. Expected errors: those of the session; the signal's abort reason. */
export async function checkStored(
  database: Session,
  { from, to }: HeightRange,
  { holds, signal }: Pick<Pass, 'holds' | 'signal'>,
): Promise<CheckedHeights> {
  const damages = new DamageList({ max: MAX_DAMAGES });
  const counts = { heights: 0, collections: 0, transactions: 0, bytes: 0, proven: 0, pointers: 0 };
  const sporks = await readSporks(database);
  const pass: Pass = { database, damages, counts, signal, sporks, holds, objectionTo: undefined };
  for (const range of within(await readCoverage(database), { from, to })) {
    const [below] = range.from === from ? await readHeads(database, from - 1, from - 1) : [];
    await checkRange(pass, { ...range, kind: 'live' }, { next: Infinity, below });
  }
  const found = damages.report([]).damages;
  // It may have left the coverage meanwhile.
  const covered = found.length === 0 ? [] : await readCoverage(database);
  return {
    bytes: counts.bytes,
    damages: found.flatMap(({ height, message }) =>
      height !== undefined && contains(covered, height) ? [{ height, what: message }] : [],
    ),
  };
}

/** Every height below `next` must have a block; heights from there on may. */
async function checkRange(
  pass: Pass,
  { from, to, kind }: StoredRange,
  {
    next,
    onStep,
    ...lower
  }: {
    readonly next: number;
    readonly below?: BlockHead | undefined;
    readonly onStep?: (height: number) => void;
  },
): Promise<CheckedRange> {
  const { counts, signal } = pass;
  const before = counts.heights;
  let { below } = lower;
  for (let height = from; height <= to; height += HEIGHTS_AT_ONCE) {
    if (signal?.aborted === true) throw abortReason(signal);
    onStep?.(height);
    const range = { from: height, to: Math.min(to, height + HEIGHTS_AT_ONCE - 1) };
    below = await checkHeights(pass, range, below, next);
  }
  return { from, to, kind, blocks: counts.heights - before };
}

/** Returns the highest block, to check the link of the next one. */
async function checkHeights(
  pass: Pass,
  range: HeightRange,
  lower: BlockHead | undefined,
  next: number,
): Promise<BlockHead | undefined> {
  const { counts, damages, database, objectionTo } = pass;
  const stored = await readStored(database, range);
  const rows = new ExpectedRows();
  const sound = new Set<number>();
  let below = lower;
  for (let height = range.from; height <= range.to; height += 1) {
    const values = stored.get(height);
    const entry = values === undefined && height >= next ? undefined : entryOf(pass, height, values);
    if (entry === undefined) {
      below = undefined;
      continue;
    }
    const { block, collections } = entry;
    if (below !== undefined && below.id !== block.parentId && !isConfirmedRoot(block, pass)) {
      damages.add(
        'parent',
        height,
        `block of height ${height}: its parent is not the block of height ${height - 1}`,
      );
    }
    const objection = objectionTo?.(block);
    if (objection !== undefined) damages.add('foreign', height, `block of height ${height}: ${objection}`);
    below = block;
    sound.add(height);
    rows.add(entry);
    counts.heights += 1;
    if (block.proof !== undefined) counts.proven += 1;
    counts.collections += collections.length;
    for (const { encoded } of collections) counts.bytes += encoded.length;
  }
  counts.transactions += rows.transactions;
  await compareRows(pass, range, { rows, sound });
  return below;
}

/** The height's content if all of it is sound. */
function entryOf(
  { damages, holds }: Pass,
  height: number,
  stored: Stored | undefined,
): BlockEntry | undefined {
  if (stored?.record === undefined) {
    damages.add('missing_block', height, `height ${height} has no block record`);
    return undefined;
  }
  try {
    const entry = assembleEntry(height, stored.record, stored.body, holds);
    const bytes = entry.collections.reduce((sum, { encoded }) => sum + encoded.length, 0);
    if (stored.body.size > bodyChunks(bytes)) {
      damages.add('unexpected', height, `body of height ${height}: it has chunks that should not exist`);
    }
    return entry;
  } catch (error) {
    damages.addError('block', error, height);
    return undefined;
  }
}

async function compareRows(
  { counts, damages, database }: Pass,
  range: HeightRange,
  { rows, sound }: { readonly rows: ExpectedRows; readonly sound: ReadonlySet<number> },
): Promise<void> {
  const expected = rows.texts;
  for (const { table, height, row } of await storedRows(database, range)) {
    // Nobody knows what the rows of a damaged height should be.
    if (!sound.has(height)) continue;
    counts.pointers += 1;
    if (!expected.delete(`${table} ${height} ${row}`)) {
      damages.add('unexpected', height, `row of ${table} of height ${height}: it is not what its block says`);
    }
  }
  for (const missing of expected) {
    const [table, height] = missing.split(' ', 2);
    damages.add('pointer', Number(height), `row of ${table} of height ${height}: it is missing`);
  }
}

/** Checks blocks outside all ranges, evidence of committees, and scripts. */
async function checkRest(
  database: PostgresDatabase,
  { damages, open }: { readonly damages: DamageList; readonly open: readonly HeightRange[] },
): Promise<void> {
  const isOpen = open.map(({ from, to }) => `height BETWEEN ${from} AND ${to}`).join(' OR ');
  const { rows } = await database.query<{ height: number }>({
    text: `SELECT height FROM flow_store.block WHERE NOT ${isCovered('height')}
      AND height < (SELECT max(from_height) FROM flow_store.coverage) AND NOT (${isOpen || 'false'})
      ORDER BY height LIMIT 100`,
  });
  for (const { height } of rows) {
    damages.add('unexpected', height, `block of height ${height}: no range has this height`);
  }
  for (const entry of await readEvidence(database)) {
    try {
      openEvidence(entry);
    } catch (error) {
      damages.addError('store_record', error);
    }
  }
  const scripts = await database.query<{ hash: string }>({
    text: `SELECT encode(hash, 'hex') AS hash FROM flow_store.script WHERE sha256(body) <> hash LIMIT 100`,
  });
  for (const { hash } of scripts.rows)
    damages.add('pointer', undefined, `script ${hash}: its body does not match its hash`);
}

async function waitingAbove(
  database: PostgresDatabase,
  watermark: number | undefined,
): Promise<VerifyReport['waiting']> {
  if (watermark === undefined) return undefined;
  const heads = await readHeads(database, watermark + 1, Number.MAX_SAFE_INTEGER);
  const [first] = heads;
  const last = heads.at(-1);
  return first && last && { blocks: heads.length, from: first.height, to: last.height };
}

/** A row as a text, which is the same for a row of the database and one that is derived from a block's bytes. */
interface StoredRow {
  readonly table: string;
  readonly height: number;
  readonly row: string;
}

/** A store of a build before 0.1.0 may have null for no time, and reference ids of another length as they came. */
const ROW_TEXTS: Readonly<Record<string, string>> = {
  block: `concat_ws('|', encode(id, 'hex'), encode(parent_id, 'hex'),
    (extract(epoch FROM coalesce(time, '0001-01-01 00:00:00+00')) * 1000000)::bigint, collections, transactions)`,
  collection: `concat_ws('|', collection_index, encode(id, 'hex'), transactions, body_offset, bytes)`,
  transaction: `concat_ws('|', collection_index, transaction_index, encode(id, 'hex'), encode(payer, 'hex'),
    encode(proposer, 'hex'), proposer_key, sequence_number, authorizers::text, encode(script_hash, 'hex'),
    rpad(encode(reference_block_id, 'hex'), 64, '0'), gas_limit, body_offset, bytes,
    (SELECT count(*) FROM flow_store.script WHERE hash = script_hash))`,
  account_transaction: `concat_ws('|', encode(address, 'hex'), collection_index, transaction_index, roles)`,
};

/** The rows of some heights. Expected errors: those of the session. */
async function storedRows(session: Session, { from, to }: HeightRange): Promise<StoredRow[]> {
  const found: StoredRow[] = [];
  for (const [table, text] of Object.entries(ROW_TEXTS)) {
    const { rows } = await session.query<{ height: number; row: string }>({
      text: `SELECT height, ${text} AS row FROM flow_store.${table} WHERE height BETWEEN $1 AND $2`,
      values: [from, to],
    });
    for (const { height, row } of rows) found.push({ table, height, row });
  }
  return found;
}
