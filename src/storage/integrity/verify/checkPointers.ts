import { entriesOf } from '../../accounts/accountEntries.js';
import { checkPointers as lookUp } from '../../leveldb/reading/checkHeights.js';
import type { HeightRange } from '../../port/stored.js';
import { readSoundEntry } from '../../records/blocks/assembleBlock.js';
import { openLookup } from '../../records/blocks/openPointers.js';
import type { Database, Entry } from '../../records/Database.js';
import { contains } from '../../records/heightRanges.js';
import { POINTER_PREFIXES, Prefix, prefixRange } from '../../records/schema.js';
import { unlessDamaged } from '../../StorageError.js';
import { notHeld } from '../../verify/checkHeights.js';
import type { DamageList } from '../../verify/DamageList.js';
import { isCovered } from './checkStoreRecords.js';
import type { LevelExtent } from './checkStoreRecords.js';
import type { PointerBalance } from './PointerBalance.js';

export interface PointerPass {
  readonly database: Database;
  readonly extent: LevelExtent;
  readonly balance: PointerBalance;
  readonly damages: DamageList;
  /** Called for every page of pointers, and for every height that is checked in detail. */
  readonly onStep: (pointers: number) => void;
}

/** Prefixes whose keys begin with a hash or an address. */
const LOOKUP_PREFIXES = [...POINTER_PREFIXES, Prefix.account];

/**
 * Compares the stored pointers and account entries with those that the blocks require: one pass over all of them, then
 * a closer look at the heights that do not balance. Returns the number stored. Expected errors: `StorageError`.
 */
export async function checkPointers(pass: PointerPass): Promise<number> {
  const { balance } = pass;
  let pointers = 0;
  for (const prefix of LOOKUP_PREFIXES) {
    for await (const page of pass.database.pages(prefixRange(prefix))) {
      pointers += page.length;
      pass.onStep(pointers);
      for (const entry of page) addFound(entry, pass);
    }
  }
  const suspects = balance.differences();
  for (const run of suspects) {
    for (let height = run.from; height <= run.to; height += 1) {
      pass.onStep(pointers);
      await checkPointersOf(height, pass);
    }
  }
  if (suspects.length > 0) await findExtraPointers(suspects, pass);
  return pointers;
}

function addFound([key, value]: Entry, { balance, damages, extent }: PointerPass): void {
  if (key[0] === Prefix.account && extent.coverage === 'unknown') return;
  try {
    const { height, name } = openLookup([key, value]);
    if (!contains(extent.allowed, height)) {
      damages.add('unexpected', height, `${name()}: ${notHeld(extent)}`);
    } else if (key[0] === Prefix.account && extent.coverage === undefined) {
      damages.add('unexpected', height, `${name()}: the store has no account index`);
    } else if (balance.covers(height)) {
      balance.found(height, key, value);
    }
  } catch (error) {
    // Report a damaged pointer whatever height it names: the height may be the damaged part.
    damages.addError('pointer', error);
  }
}

/** Looks up every pointer that the block of a height requires. */
async function checkPointersOf(height: number, { database, damages, extent }: PointerPass): Promise<void> {
  const expected = await expectedPointers(database, height, isCovered(extent, height));
  // A missing or damaged block is reported already, and its pointers are unknown.
  if (expected === undefined) return;
  await lookUp(height, expected, { damages, valueOf: (key) => database.get(key) });
}

/** Looks for stored pointers of these heights that no block requires. */
async function findExtraPointers(runs: readonly HeightRange[], pass: PointerPass): Promise<void> {
  const { database, damages, extent } = pass;
  for (const prefix of LOOKUP_PREFIXES) {
    if (prefix === Prefix.account && extent.coverage === 'unknown') continue;
    for await (const page of database.pages(prefixRange(prefix))) {
      for (const [key, value] of page) {
        // The first pass has reported it.
        const pointer = await unlessDamaged(() => openLookup([key, value]));
        if (pointer === undefined || !contains(runs, pointer.height)) continue;
        const { height, name } = pointer;
        // Entries of uncovered heights may exist, as long as they are correct.
        const expected = await expectedPointers(database, height, extent.coverage !== undefined);
        if (expected === undefined && contains(extent.required, height)) continue;
        if (expected?.some(([other]) => other.equals(key)) === true) continue;
        damages.add('unexpected', height, `${name()}: no block requires it`);
      }
    }
  }
}

/** `undefined` when the block is missing or damaged. */
async function expectedPointers(
  database: Database,
  height: number,
  withAccounts: boolean,
): Promise<Entry[] | undefined> {
  const entry = await unlessDamaged(() => readSoundEntry(database, height));
  return entry && entriesOf(entry, withAccounts);
}
