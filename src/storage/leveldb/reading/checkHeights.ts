import type { FinalizedBlock } from '../../../flow/index.js';
import { abortReason } from '../../../runtime/index.js';
import { putAccounts } from '../../accounts/accountEntries.js';
import type { CheckedHeights, FoundDamage } from '../../port/IndexStore.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import type { BlockHead, HeightRange, StoreMeta } from '../../port/stored.js';
import { covers } from '../../records/accountCoverage.js';
import type { Coverage } from '../../records/accountCoverage.js';
import { assembleEntry } from '../../records/blocks/assembleBlock.js';
import { putPointers } from '../../records/blocks/BlockEntryWriter.js';
import type { Put } from '../../records/blocks/BlockEntryWriter.js';
import { openPointer, pointerNames } from '../../records/blocks/openPointers.js';
import { links } from '../../records/book/applyCommit.js';
import { readHead } from '../../records/book/readLine.js';
import type { Database } from '../../records/Database.js';
import { contains } from '../../records/heightRanges.js';
import type { HeightRanges } from '../../records/heightRanges.js';
import { blockKey, heightRange, parseBodyKey, Prefix } from '../../records/schema.js';
import { corruptRecord, isCorruption } from '../../StorageError.js';

export interface CheckParts {
  readonly database: Database;
  readonly meta: StoreMeta;
  /** The readable heights, at the moment of the call: others are not checked. */
  readonly isCovered: (height: number) => boolean;
  /** Of the account index. */
  readonly accounts: Coverage | undefined;
  /** `undefined`: no block needs a proof. */
  readonly unproven: HeightRanges | undefined;
  /** See `proofChecker`. */
  readonly holds: (block: FinalizedBlock) => boolean;
}

/** Like `IndexStore.check`, on the records themselves. */
export async function checkHeights(
  { from, to }: HeightRange,
  parts: CheckParts,
  signal: AbortSignal | undefined,
): Promise<CheckedHeights> {
  const { database, isCovered, meta } = parts;
  const damages: FoundDamage[] = [];
  const noted = async <T>(height: number, check: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await check();
    } catch (error) {
      if (!isCorruption(error)) throw error;
      // It may have left the index meanwhile.
      if (isCovered(height)) damages.push({ height, what: error.damage ?? error.message });
      return undefined;
    }
  };
  let bytes = 0;
  let lower = isCovered(from - 1) ? await readHead(database, from - 1).catch(ignoreDamage) : undefined;
  for (let height = from; height <= to; height += 1) {
    if (signal?.aborted === true) throw abortReason(signal);
    const entry = isCovered(height) ? await noted(height, () => checkHeight(height, parts)) : undefined;
    const upper: BlockHead | undefined = entry?.block;
    if (lower !== undefined && upper !== undefined && !links(lower, upper, meta)) {
      const what = `block of height ${height}: its parent is not the block of height ${height - 1}`;
      // Either may be the wrong one.
      damages.push({ height: height - 1, what }, { height, what });
    }
    lower = upper;
    for (const { encoded } of entry?.collections ?? []) bytes += encoded.length;
  }
  return { bytes, damages };
}

function ignoreDamage(error: unknown): undefined {
  if (!isCorruption(error)) throw error;
  return undefined;
}

/** Expected errors: `StorageError` (`corrupt`). */
async function checkHeight(
  height: number,
  { accounts, database, holds, unproven }: CheckParts,
): Promise<BlockEntry> {
  const record = await valueAt(database, blockKey(height));
  if (record === undefined) throw corruptRecord('block record', height, 'it is missing');
  const body = new Map<number, Buffer>();
  for await (const page of database.pages(heightRange(Prefix.body, height, height))) {
    for (const [key, value] of page) body.set(parseBodyKey(key)?.chunk ?? -1, value);
  }
  const entry = assembleEntry(height, record, body, holds);
  if (entry.block.proof === undefined && unproven !== undefined && !contains(unproven, height))
    throw corruptRecord('block record', height, 'its proof is missing');
  const pointers: [key: Buffer, value: Buffer][] = [];
  const put: Put = (key, value) => void pointers.push([Buffer.from(key), Buffer.from(value)]);
  putPointers(entry, put);
  if (covers(accounts, height)) putAccounts(height, entry.collections, put);
  for (const [key, value] of pointers) {
    const stored = await valueAt(database, key);
    if (stored?.equals(value) === true) continue;
    const name = key[0] === Prefix.account ? 'account entry' : pointerNames[openPointer([key, value]).prefix];
    throw corruptRecord(name, height, stored === undefined ? 'it is missing' : 'it is not what it should be');
  }
  return entry;
}

/** By an iterator: LevelDB counts other reads that miss, and merges tables after some hundred, which writes them anew. */
async function valueAt(database: Database, key: Buffer): Promise<Buffer | undefined> {
  const [entry] = await database.first({ gte: key, lt: Buffer.concat([key, Buffer.of(0)]) }, 1);
  return entry?.[1];
}
