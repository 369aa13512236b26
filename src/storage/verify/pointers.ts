import { putPointers } from '../blockEntries.js';
import type { Database } from '../Database.js';
import { openPointer, pointerNames } from '../reading.js';
import { parsePointerKey, POINTER_PREFIXES, prefixRange } from '../schema.js';
import type { PointerKey } from '../schema.js';
import { isCorruption } from '../StorageError.js';
import { readEntry } from '../wholeBlock.js';
import type { HeightRun, PointerBalance } from './PointerBalance.js';
import type { DamageList } from './report.js';
import type { Extent } from './storeRecords.js';

export interface PointerPass {
  readonly database: Database;
  readonly extent: Extent;
  readonly balance: PointerBalance;
  readonly damages: DamageList;
  /** Called for every page of pointers, and for every height that is looked at in detail. */
  readonly onStep: (pointers: number) => void;
}

/**
 * Compares the stored pointers with those that the blocks call for: one pass over all of them, then a closer look at
 * those heights alone that do not come out even. Returns how many pointers are stored.
 */
export async function checkPointers(pass: PointerPass): Promise<number> {
  const { balance } = pass;
  let pointers = 0;
  let readable = true;
  for (const prefix of POINTER_PREFIXES) {
    try {
      for await (const page of pass.database.pages(prefixRange(prefix))) {
        pointers += page.length;
        pass.onStep(pointers);
        for (const entry of page) weigh(entry, pass);
      }
    } catch (error) {
      pass.damages.addError('database', error);
      readable = false;
    }
  }
  const suspects = readable ? balance.differences() : balance.all();
  for (const run of suspects) {
    for (let height = run.from; height <= run.to; height += 1) {
      pass.onStep(pointers);
      await checkPointersOf(height, pass);
    }
  }
  if (readable && suspects.length > 0) await findExtraPointers(suspects, pass);
  return pointers;
}

function weigh([key, value]: [Buffer, Buffer], { balance, damages, extent }: PointerPass): void {
  try {
    const pointer = openPointer([key, value]);
    const { height } = pointer;
    if (height < extent.firstHeight || height > extent.highest) {
      damages.add('unexpected', height, `${describe(pointer)}: the store does not reach there`);
    } else if (balance.covers(height)) {
      balance.found(height, key, value);
    }
  } catch (error) {
    // A damaged pointer is reported whatever height it names: that may be the damaged part.
    damages.addError('pointer', error);
  }
}

/** Looks up every pointer that the block of a height calls for. */
async function checkPointersOf(height: number, { database, damages }: PointerPass): Promise<void> {
  const expected = await expectedPointers(database, height);
  // A block that is missing or damaged is reported already, and what it called for is unknown.
  if (expected === undefined) return;
  const keys = expected.map(([key]) => key);
  try {
    const values = await database.getMany(keys);
    for (const [index, [key, value]] of expected.entries()) {
      const stored = values[index];
      if (stored?.equals(value) === true) continue;
      const what = stored === undefined ? 'missing' : 'not what it should be';
      damages.add('pointer', height, `${describe(openPointer([key, value]))}: it is ${what}`);
    }
  } catch (error) {
    if (!isCorruption(error)) throw error;
    damages.add('database', height, `pointers of height ${height} cannot be read: ${error.message}`);
  }
}

/** Looks for stored pointers of these heights that no block calls for. */
async function findExtraPointers(runs: readonly HeightRun[], pass: PointerPass): Promise<void> {
  const { database, damages, extent } = pass;
  for (const prefix of POINTER_PREFIXES) {
    for await (const page of database.pages(prefixRange(prefix))) {
      for (const [key, value] of page) {
        const pointer = parsePointerKey(key);
        if (pointer === undefined || !contains(runs, pointer.height) || !sound([key, value])) continue;
        const { height } = pointer;
        const expected = await expectedPointers(database, height);
        if (expected === undefined && height <= extent.latestIndexedHeight) continue;
        if (expected?.some(([other]) => other.equals(key)) === true) continue;
        damages.add('unexpected', height, `${describe(pointer)}: no block calls for it`);
      }
    }
  }
}

/** False for a pointer that the first pass reported. */
function sound(entry: [Buffer, Buffer]): boolean {
  try {
    openPointer(entry);
    return true;
  } catch (error) {
    if (!isCorruption(error)) throw error;
    return false;
  }
}

/** `undefined` when the block is missing or damaged. */
async function expectedPointers(
  database: Database,
  height: number,
): Promise<[key: Buffer, value: Buffer][] | undefined> {
  const entry = await readEntry(database, height);
  if (entry === undefined || entry === 'damaged') return undefined;
  const pointers: [Buffer, Buffer][] = [];
  putPointers(entry, (key, value) => pointers.push([Buffer.from(key), Buffer.from(value)]));
  return pointers;
}

/** Binary search in ascending runs. */
function contains(runs: readonly HeightRun[], height: number): boolean {
  let low = 0;
  let high = runs.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((runs[middle] as HeightRun).to < height) low = middle + 1;
    else high = middle;
  }
  const run = runs[low];
  return run !== undefined && run.from <= height;
}

function describe({ prefix, height, id }: PointerKey): string {
  return `${pointerNames[prefix]} of height ${height}, id ${id.toString('hex')}`;
}
