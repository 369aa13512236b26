import { entriesOf } from '../../accounts/accountEntries.js';
import type { CheckedHeights } from '../../port/IndexStore.js';
import type { BlockHead, HeightRange } from '../../port/stored.js';
import { covers } from '../../records/accountCoverage.js';
import { openLookup } from '../../records/blocks/openPointers.js';
import { readBlock } from '../../records/blocks/readBlocks.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import type { Database, Entry } from '../../records/Database.js';
import { within } from '../../records/heightRanges.js';
import { heightRange, keyAfter, parseValueKey, Prefix, prefixRange } from '../../records/schema.js';
import { unlessDamaged } from '../../StorageError.js';
import { checkCovered, checkHeights, storedHeights } from '../../verify/checkHeights.js';
import type { HeightTask, StoredValue } from '../../verify/checkHeights.js';
import type { DamageList } from '../../verify/DamageList.js';
import { readingOn } from './readingOn.js';

/** Pointers looked up at once. One at a time, each would wake a thread of the pool, which costs as much as the lookup. */
const LOOKUPS_AT_ONCE = 32;

/** Like `IndexStore.check`, on the records themselves. `bookOf`: the current book. `holds`: see `proofChecker`. */
export function checkStored(
  { bookOf, database }: { readonly bookOf: () => StoreBook; readonly database: Database },
  range: HeightRange,
  how: Pick<HeightTask, 'holds'> & { readonly signal: AbortSignal | undefined },
): Promise<CheckedHeights> {
  // What cannot be read is found as missing.
  const sound = readingOn(database, () => undefined);
  const { accounts } = bookOf();
  return checkCovered(range, bookOf, how, (task) => {
    const { damages, extent } = task;
    const heights = async function* () {
      for (const part of within(extent.required, range))
        yield* storedHeights(storedValues(sound, part, damages));
    };
    // By an iterator: LevelDB counts other reads that miss, and after some hundred merges tables, which rewrites them.
    const valueOf = async (key: Buffer) => (await sound.first({ gte: key, lt: keyAfter(key) }, 1))[0]?.[1];
    return checkHeights(heights(), {
      ...task,
      headAt: (height) => headAt(sound, height),
      onSound: (entry) => {
        const { height } = entry.block;
        const expected = entriesOf(entry, covers(accounts, height));
        return checkPointers(height, expected, { damages, valueOf });
      },
    });
  });
}

/** Looks up every pointer and account entry that the block of a height requires. */
export async function checkPointers(
  height: number,
  expected: readonly Entry[],
  {
    damages,
    valueOf,
  }: { readonly damages: DamageList; readonly valueOf: (key: Buffer) => Promise<Buffer | undefined> },
): Promise<void> {
  for (let at = 0; at < expected.length; at += LOOKUPS_AT_ONCE) {
    const some = expected.slice(at, at + LOOKUPS_AT_ONCE);
    const values = await Promise.all(some.map(([key]) => valueOf(key)));
    for (const [index, [key, value]] of some.entries()) {
      const stored = values[index];
      if (stored?.equals(value) === true) continue;
      const what = stored === undefined ? 'missing' : 'not what it should be';
      damages.add('pointer', height, `${openLookup([key, value]).name()}: it is ${what}`);
    }
  }
}

/** See `HeightPass`. */
export function headAt(database: Database, height: number): Promise<BlockHead | undefined> {
  return unlessDamaged(async () => (await readBlock(database, height))?.block);
}

/**
 * Block records and bodies of a range, ascending, in one pass over the disk. Foreign keys are damage. No range: every key
 * of the two prefixes, even with impossible heights. Expected errors: `StorageError`.
 */
export async function* storedValues(
  database: Database,
  range: HeightRange | undefined,
  damages: DamageList,
): AsyncGenerator<StoredValue, void, undefined> {
  const under = async function* (prefix: typeof Prefix.block | typeof Prefix.body) {
    const keys = range === undefined ? prefixRange(prefix) : heightRange(prefix, range.from, range.to);
    for await (const page of database.pages(keys))
      for (const [key, value] of page) {
        const position = parseValueKey(key);
        if (position !== undefined) yield { ...position, value };
        else damages.add('unexpected', undefined, `key ${key.toString('hex')} is not one of ours`);
      }
  };
  const bodies = under(Prefix.body);
  try {
    let body = await bodies.next();
    for await (const record of under(Prefix.block)) {
      for (; body.done !== true && body.value.height < record.height; body = await bodies.next())
        yield body.value;
      yield record;
    }
    for (; body.done !== true; body = await bodies.next()) yield body.value;
  } finally {
    await bodies.return();
  }
}
