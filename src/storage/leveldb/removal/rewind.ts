import type { Logger } from '../../../observability/index.js';
import { unlessDamaged, type StorageError } from '../../StorageError.js';
import { entriesOf } from '../../accounts/accountEntries.js';
import type { HeightRange, StoreMeta } from '../../port/stored.js';
import type { Database, WriteBatch } from '../../records/Database.js';
import { covers, rewound, type Coverage } from '../../records/accountCoverage.js';
import { readSoundEntry } from '../../records/blocks/assembleBlock.js';
import { healingIn, rewoundBook } from '../../records/book/repairedBook.js';
import { coverageOfBook, durableHeights } from '../../records/book/StoreBook.js';
import { openAt, settled, withoutOpen, withOpen } from '../../records/book/changeBook.js';
import type { BookWriter } from '../writing/bookWriter.js';
import { coverageOf, loadBook, putChanges, readOne, sealOne } from '../../records/book/bookRecords.js';
import { single } from '../../records/book/bookRecords.js';
import type { RewindIntent } from '../../records/coding/heightRecords.js';
import { contains, overlap, upTo, without } from '../../records/heightRanges.js';
import { POINTER_PREFIXES, Prefix, blockKey, heightRange, parseAccountKey } from '../../records/schema.js';
import { parseBlockKey, parseBodyKey, parseHeightKey, parsePointerKey } from '../../records/schema.js';
import { prefixRange } from '../../records/schema.js';

/** Writes one batch of a removal. */
type WriteOne = (batch: WriteBatch) => Promise<void>;

/** Heights, and deletions, per atomic batch of a rewind. */
const MAX_HEIGHTS_PER_BATCH = 64;
const MAX_DELETIONS_PER_BATCH = 20_000;

/**
 * Removes everything above a height, as the only write under way. From its first atomic batch on, nothing above the target
 * counts as indexed, and the next open finishes the work. Until the end the account index covers what will be left of it: a
 * step of the index that is under way is void. Like `IndexStore.rewind`, with its expected errors.
 */
export async function rewindStore(
  queue: BookWriter,
  height: number,
  how: { readonly logger: Logger; readonly onStep?: ((highest: number) => void) | undefined },
): Promise<void> {
  const { database } = queue;
  const { logger } = how;
  // Read now: a range that touches the live one may have been published before the turn of this write.
  const before = queue.initialised();
  const { above, accounts, damage, latestIndexedHeight: watermarkBefore } = before;
  const { after, target } = rewoundBook(before, height);
  const remaining = Math.max(watermarkBefore, ...above.keys());
  // A damaged height that became a hole may still be stored in part.
  const healing = upTo(healingIn(before.plans, coverageOfBook(before)), remaining);
  const sweep = damage !== undefined || (healing.at(-1)?.to ?? 0) > target;
  const isWithinLive = after.meta.firstHeight === before.meta.firstHeight;
  const covered = isWithinLive ? undefined : without(durableHeights(before), [{ from: 0, to: target }]);
  const intent = { target, remaining, watermarkBefore, sweep, covered };
  using batch = database.batch();
  batch.put(...sealOne(single.rewind, intent));
  putChanges(before, after, batch);
  await batch.write();
  queue.replace({ ...before, accounts: accounts && rewound(accounts, target) });
  logger.info({ height, from: remaining }, 'rewind begins');
  await finishRewind(database, intent, accounts, how);
  queue.replace(await loadBook(database, after.meta, logger));
}

/**
 * Removes every record above the target, highest first, in bounded batches that each record their progress: a crash
 * loses at most the current batch. `coverage`: as before the rewind; it stays recorded until the end. Pointers are per
 * position, so a kept block that shares an id with a removed one is not touched.
 */
async function finishRewind(
  database: Database,
  begun: RewindIntent,
  coverage: Coverage | undefined,
  { logger, onStep }: Parameters<typeof rewindStore>[2],
): Promise<void> {
  let intent = begun;
  const { target, watermarkBefore, covered = [{ from: target + 1, to: watermarkBefore }] } = begun;
  while (intent.remaining > target) {
    using batch = database.batch();
    let { remaining, sweep } = intent;
    for (let heights = 0; heights < MAX_HEIGHTS_PER_BATCH && remaining > target; heights += 1) {
      if (batch.length >= MAX_DELETIONS_PER_BATCH) break;
      const found = await removeHeight(batch, remaining, { database, coverage });
      sweep ||= found === 'damaged' || (found === 'no record' && contains(covered, remaining));
      remaining -= 1;
      if (found !== 'no record') continue;
      const next = (await highestStored(database, target + 1, remaining)) ?? target;
      sweep ||= covered.some((range) => overlap(range, { from: next + 1, to: remaining }));
      remaining = next;
    }
    intent = { ...intent, remaining, sweep };
    batch.put(...sealOne(single.rewind, intent));
    await batch.write();
    logger.debug({ remaining, target }, 'rewinding');
    onStep?.(remaining);
  }
  if (intent.sweep) {
    logger.warn({ target }, 'damaged records above the target: looking through all pointers');
    await sweepOutside(database, (height) => height <= target);
  }
  using batch = database.batch();
  batch.del(single.rewind.key);
  const above = heightRange(Prefix.evidence, target + 1, Number.MAX_SAFE_INTEGER);
  for await (const page of database.pages(above)) for (const [key] of page) batch.del(key);
  if (coverage !== undefined) batch.put(...sealOne(single.coverage, rewound(coverage, target)));
  await batch.write();
}

/** Removes the blocks that an open range's record marks for removal, and the range itself if marked. */
export async function removeRange(range: HeightRange, queue: BookWriter, logger: Logger): Promise<void> {
  const open = openAt(queue.initialised(), range);
  if (open?.keep === undefined) return;
  const from = open.keep + 1;
  await queue.inSteps(() => removeBlocks({ from, to: range.to }, queue, logger));
  await queue.record('range', (now) => {
    const left = openAt(now, range);
    if (left === undefined) return undefined;
    if (left.isDropped) return { after: settled(withoutOpen(now, range.from)) };
    return { after: withOpen(now, { ...left, keep: undefined }) };
  });
}

/**
 * Highest first, in bounded batches. A healing height may be stored only in part, because it was damaged: what is left of it
 * will be overwritten. Other damage costs a look through all pointers. Expected errors: `StorageError`.
 */
async function removeBlocks({ from, to }: HeightRange, queue: BookWriter, logger: Logger): Promise<void> {
  const { database } = queue;
  const book = queue.initialised();
  const coverage = book.accounts;
  const healing = healingIn(book.plans, coverageOfBook(book));
  const write: WriteOne = (batch) => queue.alone(() => batch.write());
  for (let remaining = to; ;) {
    using batch = database.batch();
    for (let heights = 0; heights < MAX_HEIGHTS_PER_BATCH; heights += 1) {
      if (batch.length >= MAX_DELETIONS_PER_BATCH) break;
      const height = await highestStored(database, from, remaining);
      if (height === undefined) break;
      const found = await removeHeight(batch, height, { database, coverage });
      if (found !== 'whole' && !contains(healing, height)) {
        logger.warn({ height }, 'a damaged block in a range that is removed: looking through all pointers');
        const keeps = (each: number, prefix: number): boolean =>
          each < from || each > to || prefix === Prefix.evidence;
        await sweepOutside(database, keeps, write);
        return;
      }
      remaining = height - 1;
    }
    if (batch.length === 0) return;
    await write(batch);
  }
}

/** The highest height of a range with a block record or a part of a body. */
async function highestStored(database: Database, from: number, to: number): Promise<number | undefined> {
  if (to < from) return undefined;
  const [block, body] = await Promise.all([
    database.lastKey(heightRange(Prefix.block, from, to)),
    database.lastKey(heightRange(Prefix.body, from, to)),
  ]);
  // A foreign key must hide nothing: it counts as the highest height, so that the search goes height by height.
  const heights = [block && (parseBlockKey(block) ?? to), body && (parseBodyKey(body)?.height ?? to)];
  const stored = heights.filter((height) => height !== undefined);
  return stored.length === 0 ? undefined : Math.max(...stored);
}

/** Adds the deletion of everything at a height. `damaged`: damage hides some of it. */
async function removeHeight(
  batch: WriteBatch,
  height: number,
  { database, coverage }: { readonly database: Database; readonly coverage: Coverage | undefined },
): Promise<'whole' | 'no record' | 'damaged'> {
  const damage: StorageError[] = [];
  const entry = await unlessDamaged(
    () => readSoundEntry(database, height),
    (error) => damage.push(error),
  );
  batch.del(blockKey(height));
  for await (const page of database.pages(heightRange(Prefix.body, height, height)))
    for (const [key] of page) batch.del(key);
  if (entry === undefined) return damage.length > 0 ? 'damaged' : 'no record';
  const keys = entriesOf(entry, coverage !== undefined).map(([key]) => key);
  for (const key of keys) batch.del(key);
  // Uncovered heights may have only some of their account entries.
  const needed = covers(coverage, height) ? keys : keys.filter(([prefix]) => prefix !== Prefix.account);
  // A missing pointer is stored under a corrupted key somewhere else.
  const present = await database.getMany(needed);
  return present.includes(undefined) ? 'damaged' : 'whole';
}

/**
 * Deletes everything at heights that are not kept, and under invalid keys, by checking every key. Blocks go last: while a
 * damaged one is stored, the repeat of an interrupted removal sweeps again.
 */
export async function sweepOutside(
  database: Database,
  keeps: (height: number, prefix: number) => boolean,
  write: WriteOne = (batch) => batch.write(),
): Promise<void> {
  for (const prefix of [Prefix.account, ...POINTER_PREFIXES, Prefix.body, Prefix.block, Prefix.evidence]) {
    for await (const page of database.pages(prefixRange(prefix))) {
      using batch = database.batch();
      for (const [key] of page) {
        const height = heightOf(key);
        if (height === undefined || !keeps(height, prefix)) batch.del(key);
      }
      if (batch.length > 0) await write(batch);
    }
  }
}

function heightOf(key: Buffer): number | undefined {
  return (
    parseHeightKey(Prefix.evidence, key) ??
    parseBlockKey(key) ??
    parseBodyKey(key)?.height ??
    (parsePointerKey(key) ?? parseAccountKey(key))?.height
  );
}

/** Finishes a rewind that an earlier process began. Expected errors: `StorageError`. */
export async function finishInterrupted(database: Database, meta: StoreMeta, logger: Logger): Promise<void> {
  const rewind = await readOne(database, single.rewind);
  if (rewind === undefined) return;
  logger.info({ height: rewind.target, from: rewind.remaining }, 'finishing an interrupted rewind');
  await finishRewind(database, rewind, await coverageOf(database, meta), { logger });
}
