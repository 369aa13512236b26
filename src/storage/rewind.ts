import type { Logger } from '../observability/index.js';
import { putPointers } from './blockEntries.js';
import type { StoreMeta } from './IndexStore.js';
import type { Database, WriteBatch } from './Database.js';
import { readEntry } from './wholeBlock.js';
import { encodeMeta, encodeProgress, encodeRewind } from './records.js';
import type { RewindIntent } from './records.js';
import {
  blockKey,
  heightRange,
  META_KEY,
  parseBlockKey,
  parseBodyKey,
  parsePointerKey,
  POINTER_PREFIXES,
  Prefix,
  prefixRange,
  PROGRESS_KEY,
  REWIND_KEY,
  seal,
} from './schema.js';

/** Heights, and deletions, of one atomic batch of a rewind. */
const MAX_HEIGHTS_PER_BATCH = 64;
const MAX_DELETIONS_PER_BATCH = 20_000;

/** The meta record after a rewind: a spork whose root is forgotten will be met again. The first one stays. */
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
 * Removes every record above the target, highest first, in bounded batches that each say how far they came: a crash
 * loses at most the batch in hand. A record that shares an id with a kept block has its own pointers, so nothing of the
 * kept block is touched.
 */
export async function finishRewind(
  database: Database,
  begun: RewindIntent,
  { logger }: { readonly logger: Logger },
): Promise<void> {
  let intent = begun;
  while (intent.remaining > intent.target) {
    const batch = database.batch();
    let { remaining, sweep } = intent;
    const lowest = Math.max(intent.target + 1, remaining - MAX_HEIGHTS_PER_BATCH + 1);
    while (remaining >= lowest && batch.length < MAX_DELETIONS_PER_BATCH) {
      const whole = await removeHeight(database, batch, remaining, intent.watermarkBefore);
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
  await batch.write();
}

/** Adds the deletion of all that a height has. `false` when damage hides some of it. */
async function removeHeight(
  database: Database,
  batch: WriteBatch,
  height: number,
  watermarkBefore: number,
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
  for (const key of pointers) batch.del(key);
  // A pointer that is not where it should be is under a changed key somewhere else.
  const present = await database.hasMany(pointers);
  return present.every(Boolean);
}

/** Deletes whatever lies above the target, or under no valid key, by looking at every key. */
async function sweepAbove(database: Database, target: number): Promise<void> {
  for (const prefix of [Prefix.block, Prefix.body, ...POINTER_PREFIXES]) {
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
  return parseBlockKey(key) ?? parseBodyKey(key)?.height ?? parsePointerKey(key)?.height;
}
