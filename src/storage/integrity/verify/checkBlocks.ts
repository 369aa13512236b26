import type { FinalizedBlock } from '../../../flow/index.js';
import { putAccounts } from '../../accounts/accountEntries.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import type { BlockHead, HeightRange } from '../../port/stored.js';
import { assembleEntry } from '../../records/blocks/assembleBlock.js';
import { putPointers } from '../../records/blocks/BlockEntryWriter.js';
import type { Put } from '../../records/blocks/BlockEntryWriter.js';
import { headOf, readBlock } from '../../records/blocks/readBlocks.js';
import { isConfirmedRoot } from '../../records/book/applyCommit.js';
import type { Database } from '../../records/Database.js';
import { contains, rangeOf, within } from '../../records/heightRanges.js';
import { bodyChunks } from '../../records/schema.js';
import { isCorruption } from '../../StorageError.js';
import { isCovered } from './checkStoreRecords.js';
import type { Extent } from './checkStoreRecords.js';
import type { DamageList, StoredRange, VerifyReport } from './DamageList.js';
import type { PointerBalance } from './PointerBalance.js';
import { storedHeights } from './storedHeights.js';
import type { StoredHeight } from './storedHeights.js';

export interface BlockCounts {
  heights: number;
  collections: number;
  transactions: number;
  bytes: number;
  /** Blocks whose ids and guarantees are proven. */
  proven: number;
  /** Blocks above the watermark. */
  waiting: VerifyReport['waiting'];
  ranges: (StoredRange & { blocks: number })[];
}

export interface BlockPass {
  readonly database: Database;
  readonly extent: Extent;
  /** Empty when `to` is below `from`. */
  readonly range: HeightRange;
  /** The whole store: entries outside the range are damage. */
  readonly whole: boolean;
  readonly balance: PointerBalance;
  readonly damages: DamageList;
  /** See `proofChecker`. */
  readonly holds: (block: FinalizedBlock) => boolean;
  /** See `VerifyOptions`. */
  readonly objectionTo: ((block: FinalizedBlock) => string | undefined) | undefined;
  /** Called for every height. */
  readonly onHeight: (height: number) => void;
}

/**
 * Checks block records and bodies in height order: no height is missing, every hash is right, each block is the child of
 * the one below. The pointers that the blocks require go into the balance.
 */
export async function checkBlocks(pass: BlockPass): Promise<BlockCounts> {
  const { database, extent, range, whole, damages } = pass;
  const counts: BlockCounts = {
    heights: 0,
    collections: 0,
    transactions: 0,
    bytes: 0,
    proven: 0,
    waiting: undefined,
    ranges: rangesIn(range, extent),
  };
  let previous = contains(extent.allowed, range.from - 1) ? await headBelow(database, range.from) : undefined;
  let next = range.from;
  for await (const stored of storedHeights(database, range, whole, damages)) {
    const { height } = stored;
    const isOutside = height < range.from || height > range.to;
    if (isOutside || !contains(extent.allowed, height)) {
      damages.add('unexpected', height, `entries of height ${height}: ${notHeld(extent)}`);
      if (!isOutside) previous = undefined;
      continue;
    }
    pass.onHeight(height);
    reportMissing({ from: next, to: height - 1 }, extent, damages);
    next = height + 1;
    const entry = checkHeight(stored, pass);
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
  reportMissing({ from: next, to: range.to }, extent, damages);
  return counts;
}

/** The parts of the store's ranges that lie in the checked heights. */
function rangesIn(range: HeightRange, extent: Extent): BlockCounts['ranges'] {
  const { firstHeight, latestIndexedHeight, open, published } = extent;
  const kinds = [
    ...published.map((each) => ({ ...each, kind: 'published' as const })),
    ...open.map(({ from, to }) => ({ from, to, kind: 'open' as const })),
    { from: firstHeight, to: latestIndexedHeight, kind: 'live' as const },
  ];
  return kinds
    .flatMap(({ kind, ...each }) => within([each], range).map((part) => ({ ...part, kind, blocks: 0 })))
    .sort((left, right) => left.from - right.from);
}

/** Why nothing may be at a height, in words. */
export function notHeld({ published, open }: Extent): string {
  return published.length + open.length === 0
    ? 'the store does not reach that far'
    : 'no range of the store has it';
}

async function headBelow(database: Database, height: number): Promise<BlockHead | undefined> {
  try {
    const below = await readBlock(database, height - 1);
    return below && headOf(below);
  } catch (error) {
    // Damage below the range is not part of this check.
    if (!isCorruption(error)) throw error;
    return undefined;
  }
}

function reportMissing(run: HeightRange, { required }: Extent, damages: DamageList): void {
  if (run.to < run.from) return;
  for (const { from, to } of within(required, run)) {
    const heights = from === to ? `height ${from} has` : `heights ${from} to ${to} have`;
    damages.add('missing_block', from, `${heights} no block record`, { from, to });
  }
}

/** The height's content if all of it is sound. */
function checkHeight(
  { height, record, body }: StoredHeight,
  { damages, extent, holds, objectionTo }: BlockPass,
): BlockEntry | undefined {
  if (record === undefined) {
    reportMissing({ from: height, to: height }, extent, damages);
    damages.add('block', height, `body of height ${height}: it has no block record`);
    return undefined;
  }
  try {
    const entry = assembleEntry(height, record, body, holds);
    if (
      entry.block.proof === undefined &&
      extent.unproven !== undefined &&
      !contains(extent.unproven, height)
    )
      damages.add('block', height, `block record of height ${height}: its proof is missing`);
    const objection = objectionTo?.(entry.block);
    if (objection !== undefined) damages.add('foreign', height, `block of height ${height}: ${objection}`);
    const bodyLength = entry.collections.reduce((sum, { encoded }) => sum + encoded.length, 0);
    for (const chunk of body.keys()) {
      if (chunk < bodyChunks(bodyLength)) continue;
      damages.add('block', height, `body of height ${height}: chunk ${chunk} should not exist`);
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
  if (isConfirmedRoot(block, extent)) return;
  damages.add(
    'parent',
    block.height,
    `block of height ${block.height}: its parent is not the block of height ${previous.height}`,
    // Either may be the wrong one.
    { from: previous.height, to: block.height },
  );
}

function count(
  counts: BlockCounts,
  { block: { height, proof }, collections }: BlockEntry,
  extent: Extent,
): void {
  counts.heights += 1;
  if (proof !== undefined) counts.proven += 1;
  const range = rangeOf(counts.ranges, height);
  if (range !== undefined) range.blocks += 1;
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
