import { putAccounts } from '../../accounts/accountEntries.js';
import { putPointers } from '../../records/BlockEntryWriter.js';
import type { Put } from '../../records/BlockEntryWriter.js';
import type { BlockEntry, BlockHead } from '../../IndexStore.js';
import type { Database } from '../../records/Database.js';
import { headOf, readBlock } from '../../records/readRecords.js';
import { bodyChunks } from '../../records/schema.js';
import { isCorruption } from '../../StorageError.js';
import { isVouchedRoot } from '../../records/applyCommit.js';
import { assembleEntry } from '../../records/assembleBlock.js';
import { storedHeights } from './storedHeights.js';
import type { StoredHeight } from './storedHeights.js';
import type { HeightRun, PointerBalance } from './PointerBalance.js';
import type { DamageList } from './DamageList.js';
import { isCovered } from './checkStoreRecords.js';
import type { Extent } from './checkStoreRecords.js';

export interface BlockCounts {
  heights: number;
  collections: number;
  transactions: number;
  bytes: number;
  /** Blocks above the watermark. */
  waiting: { readonly blocks: number; readonly from: number; readonly to: number } | undefined;
}

export interface BlockPass {
  readonly database: Database;
  readonly extent: Extent;
  readonly range: HeightRun;
  /** The whole store: entries outside the range are damage. */
  readonly whole: boolean;
  readonly balance: PointerBalance;
  readonly damages: DamageList;
  /** Called for every height. */
  readonly onHeight: (height: number) => void;
}

/**
 * Checks block records and bodies in height order: every height is there, everything is rehashed, each block is the
 * child of the one below. The pointers that the blocks require go into the balance.
 */
export async function checkBlocks(pass: BlockPass): Promise<BlockCounts> {
  const { database, extent, range, whole, damages } = pass;
  const counts: BlockCounts = { heights: 0, collections: 0, transactions: 0, bytes: 0, waiting: undefined };
  let previous = range.from > extent.firstHeight ? await headBelow(database, range.from) : undefined;
  let next = range.from;
  for await (const stored of storedHeights(database, range, whole, damages)) {
    const { height } = stored;
    if (height < range.from || height > range.to) {
      damages.add('unexpected', height, `entries of height ${height}: the store does not reach that far`);
      continue;
    }
    pass.onHeight(height);
    reportMissing(next, Math.min(height - 1, extent.latestIndexedHeight), damages);
    next = height + 1;
    const entry = checkHeight(stored, extent, damages);
    if (entry === undefined) {
      previous = undefined;
      continue;
    }
    checkParent(previous, entry, extent, damages);
    previous = entry.block;
    count(counts, entry, extent);
    const expect: Put = (key, value) => pass.balance.expect(height, key, value);
    putPointers(entry, expect);
    if (isCovered(extent, height)) putAccounts(height, entry.collections, expect);
  }
  reportMissing(next, Math.min(range.to, extent.latestIndexedHeight), damages);
  return counts;
}

async function headBelow(database: Database, height: number): Promise<BlockHead | undefined> {
  try {
    const below = await readBlock(database, height - 1);
    return below && headOf(below);
  } catch (error) {
    // Damage below the range was not asked for.
    if (!isCorruption(error)) throw error;
    return undefined;
  }
}

function reportMissing(from: number, to: number, damages: DamageList): void {
  if (to < from) return;
  const heights = from === to ? `height ${from} has` : `heights ${from} to ${to} have`;
  damages.add('missing_block', from, `${heights} no block record`);
}

/** The height's content if all of it is sound. */
function checkHeight(
  { height, record, body }: StoredHeight,
  extent: Extent,
  damages: DamageList,
): BlockEntry | undefined {
  if (record === undefined) {
    if (height <= extent.latestIndexedHeight) reportMissing(height, height, damages);
    damages.add('unexpected', height, `body of height ${height}: it has no block record`);
    return undefined;
  }
  try {
    const entry = assembleEntry(height, record, body);
    const bodyLength = entry.collections.reduce((sum, { encoded }) => sum + encoded.length, 0);
    for (const chunk of body.keys()) {
      if (chunk < bodyChunks(bodyLength)) continue;
      damages.add('unexpected', height, `body of height ${height}: chunk ${chunk} should not exist`);
    }
    return entry;
  } catch (error) {
    damages.addError('block', error, height);
    return undefined;
  }
}

function checkParent(
  previous: BlockHead | undefined,
  { block }: BlockEntry,
  extent: Extent,
  damages: DamageList,
): void {
  if (previous?.height !== block.height - 1 || previous.id === block.parentId) return;
  if (isVouchedRoot(block, extent)) return;
  damages.add(
    'parent',
    block.height,
    `block of height ${block.height}: its parent is not the block of height ${previous.height}`,
  );
}

function count(counts: BlockCounts, { block: { height }, collections }: BlockEntry, extent: Extent): void {
  counts.heights += 1;
  if (height > extent.latestIndexedHeight) {
    const { blocks = 0, from = height } = counts.waiting ?? {};
    counts.waiting = { blocks: blocks + 1, from, to: height };
  }
  counts.collections += collections.length;
  for (const { ranges, encoded } of collections) {
    counts.transactions += ranges.length / 2;
    counts.bytes += encoded.length;
  }
}
