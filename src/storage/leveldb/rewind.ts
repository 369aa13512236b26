import type { Logger } from '../../observability/index.js';
import { putAccounts } from '../accounts/accountEntries.js';
import { covers, rewound } from '../records/accountCoverage.js';
import type { Coverage } from '../records/accountCoverage.js';
import { putPointers } from '../records/BlockEntryWriter.js';
import type { StoreMeta } from '../IndexStore.js';
import type { Database, WriteBatch } from '../records/Database.js';
import { readEntry } from '../records/assembleBlock.js';
import { encodeCoverage, encodeMeta, encodeProgress, encodeRewind } from '../records/codecs.js';
import type { RewindIntent } from '../records/codecs.js';
import {
  blockKey,
  COVERAGE_KEY,
  heightRange,
  META_KEY,
  parseAccountKey,
  parseBlockKey,
  parseBodyKey,
  parsePointerKey,
  POINTER_PREFIXES,
  Prefix,
  prefixRange,
  PROGRESS_KEY,
  REWIND_KEY,
  seal,
} from '../records/schema.js';

/** Heights, and deletions, per atomic batch of a rewind. */
const MAX_HEIGHTS_PER_BATCH = 64;
const MAX_DELETIONS_PER_BATCH = 20_000;

/** The meta record after a rewind. A spork whose root is removed will be recorded again; the first one stays. */
export function metaAfterRewind(meta: StoreMeta, target: number): StoreMeta {
  const kept = Math.max(target, meta.firstHeight);
  return { ...meta, sporks: meta.sporks.filter(({ rootHeight }) => rootHeight <= kept) };
}

/**
 * The first step, one atomic batch: from here on nothing above the target counts as indexed, and whoever opens the
 * store finishes the work.
 */
export async function beginRewind(database: Database, meta: StoreMeta, intent: RewindIntent): Promise<void> {
  const batch = database.batch();
  batch.put(REWIND_KEY, seal(REWIND_KEY, encodeRewind(intent)));
  const latest = Math.min(intent.watermarkBefore, intent.target);
  batch.put(PROGRESS_KEY, seal(PROGRESS_KEY, encodeProgress(latest)));
  batch.put(META_KEY, seal(META_KEY, encodeMeta(metaAfterRewind(meta, intent.target))));
  await batch.write();
}

/**
 * Removes every record above the target, highest first, in bounded batches that each record how far they came: a crash
 * loses at most the current batch. `coverage` is that of before the rewind, and stays recorded until the end. A record
 * that shares an id with a kept block has its own pointers, so the kept block is not touched.
 */
export async function finishRewind(
  database: Database,
  begun: RewindIntent,
  { logger, coverage }: { readonly logger: Logger; readonly coverage: Coverage | undefined },
): Promise<void> {
  let intent = begun;
  while (intent.remaining > intent.target) {
    const batch = database.batch();
    let { remaining, sweep } = intent;
    const lowest = Math.max(intent.target + 1, remaining - MAX_HEIGHTS_PER_BATCH + 1);
    while (remaining >= lowest && batch.length < MAX_DELETIONS_PER_BATCH) {
      const whole = await removeHeight(batch, remaining, {
        ...{ database, coverage },
        watermarkBefore: intent.watermarkBefore,
      });
      sweep ||= !whole;
      remaining -= 1;
    }
    intent = { ...intent, remaining, sweep };
    batch.put(REWIND_KEY, seal(REWIND_KEY, encodeRewind(intent)));
    await batch.write();
    logger.debug({ remaining, target: intent.target }, 'rewinding');
  }
  if (intent.sweep) {
    logger.warn({ target: intent.target }, 'damaged records above the target: looking through all pointers');
    await sweepAbove(database, intent.target);
  }
  const batch = database.batch();
  batch.del(REWIND_KEY);
  if (coverage !== undefined) {
    batch.put(COVERAGE_KEY, seal(COVERAGE_KEY, encodeCoverage(rewound(coverage, intent.target))));
  }
  await batch.write();
}

/** Adds the deletion of everything at a height. `false` when damage hides some of it. */
async function removeHeight(
  batch: WriteBatch,
  height: number,
  {
    database,
    coverage,
    watermarkBefore,
  }: {
    readonly database: Database;
    readonly coverage: Coverage | undefined;
    readonly watermarkBefore: number;
  },
): Promise<boolean> {
  const entry = await readEntry(database, height);
  batch.del(blockKey(height));
  for await (const keys of database.keyPages(heightRange(Prefix.body, height, height))) {
    for (const key of keys) batch.del(key);
  }
  if (entry === 'damaged') return false;
  if (entry === undefined) return height > watermarkBefore;
  const pointers: Buffer[] = [];
  putPointers(entry, (key) => pointers.push(Buffer.from(key)));
  const accounts: Buffer[] = [];
  if (coverage !== undefined) {
    putAccounts(height, entry.collections, (key) => accounts.push(Buffer.from(key)));
  }
  for (const key of [...pointers, ...accounts]) batch.del(key);
  // At uncovered heights some entries may exist and some not.
  if (covers(coverage, height)) pointers.push(...accounts);
  // A pointer missing from its place stands under a corrupted key somewhere else.
  const present = await database.hasMany(pointers);
  return present.every(Boolean);
}

/** Deletes whatever lies above the target, or under no valid key, by checking every key. */
async function sweepAbove(database: Database, target: number): Promise<void> {
  for (const prefix of [Prefix.block, Prefix.body, ...POINTER_PREFIXES, Prefix.account]) {
    for await (const keys of database.keyPages(prefixRange(prefix))) {
      const batch = database.batch();
      for (const key of keys) {
        const height = heightOf(key);
        if (height === undefined || height > target) batch.del(key);
      }
      if (batch.length > 0) await batch.write();
    }
  }
}

function heightOf(key: Buffer): number | undefined {
  return (
    parseBlockKey(key) ?? parseBodyKey(key)?.height ?? (parsePointerKey(key) ?? parseAccountKey(key))?.height
  );
}
