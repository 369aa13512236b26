import type { FinalizedBlock } from '../../../flow/index.js';
import type { Logger } from '../../../observability/index.js';
import { abortReason, OperatorError } from '../../../runtime/index.js';
import { LevelDatabase } from '../../leveldb/directory/LevelDatabase.js';
import { defaultTuning } from '../../leveldb/directory/openLevel.js';
import { droppedAtOpen, prepareDirectory } from '../../leveldb/directory/storeDirectory.js';
import { readingOn } from '../../leveldb/reading/readingOn.js';
import type { HeightRange } from '../../port/stored.js';
import type { Database } from '../../records/Database.js';
import { proofChecker } from '../../records/blocks/assembleBlock.js';
import { rangesInWords } from '../../records/heightRanges.js';
import { causesOf, isCorruption } from '../../StorageError.js';
import { checkBlocks } from './checkBlocks.js';
import type { BlockCounts } from './checkBlocks.js';
import { checkPointers } from './checkPointers.js';
import { checkStoreRecords, checkUnknownKeys } from './checkStoreRecords.js';
import type { Extent } from './checkStoreRecords.js';
import { DamageList } from './DamageList.js';
import type { VerifyReport } from './DamageList.js';
import { PointerBalance } from './PointerBalance.js';

export interface VerifyOptions {
  readonly path: string;
  readonly chainId: string;
  /** First and last height to check. Default: the whole store. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  /** The most damages that the report describes; it counts all of them. */
  readonly maxDamages?: number;
  /** What else is wrong with a block, by what the caller knows of the chain; in words. */
  readonly objectionTo?: ((block: FinalizedBlock) => string | undefined) | undefined;
}

/** How far a verification has come. */
export type VerifyProgress =
  | { readonly phase: 'blocks'; readonly height: number; readonly from: number; readonly to: number }
  | { readonly phase: 'pointers'; readonly pointers: number };

export interface VerifyDependencies {
  readonly logger: Logger;
  readonly onProgress?: (progress: VerifyProgress) => void;
  readonly signal?: AbortSignal;
}

const DEFAULT_MAX_DAMAGES = 1000;
/** Different words of LevelDB about what it cannot read. */
const MAX_UNREADABLE = 20;

/**
 * Proves that a store holds what it claims, or names what is wrong: the store's own records; every height of the range
 * with every collection its block guarantees, rehashed; checksums, canonical encodings and parent links; pointers both
 * ways; and that nothing else is stored. Memory is bounded, however long the chain is. Pointers are in hash order, so all
 * of them are checked even for part of the heights.
 *
 * Damage is never thrown, not even when the database cannot be opened for it. Expected errors: `StorageError` other
 * than `corrupt` (`locked`, `missing`, …); `OperatorError`: `foreign`, `configuration` (newer schema), `usage` (heights
 * outside the store); the signal's abort reason.
 */
export async function verifyStore(
  options: VerifyOptions,
  dependencies: VerifyDependencies,
): Promise<VerifyReport> {
  const { path, maxDamages = DEFAULT_MAX_DAMAGES } = options;
  const damages = new DamageList({ max: maxDamages });
  const step = (progress: VerifyProgress): void => {
    if (dependencies.signal?.aborted === true) throw abortReason(dependencies.signal);
    dependencies.onProgress?.(progress);
  };
  try {
    await prepareDirectory(path, false);
    const database = await LevelDatabase.open(path, defaultTuning, { create: false });
    try {
      for (const line of await droppedAtOpen(path))
        damages.add('log', undefined, `the write-ahead log: ${line}`);
      const unreadable = new Set<string>();
      const sound = readingOn(database, (damage) => {
        if (unreadable.has(damage) || unreadable.size >= MAX_UNREADABLE) return;
        unreadable.add(damage);
        damages.add('database', undefined, `the database cannot read all of its files: ${damage}`);
      });
      return await verifyDatabase(sound, options, damages, { ...dependencies, step });
    } finally {
      await database.close();
    }
  } catch (error) {
    if (!isCorruption(error)) throw error;
    damages.add('database', undefined, error.damage ?? causesOf(error).at(-1)?.message ?? error.message);
    return report(damages, {});
  }
}

interface Steps extends VerifyDependencies {
  readonly step: (progress: VerifyProgress) => void;
}

async function verifyDatabase(
  database: Database,
  options: VerifyOptions,
  damages: DamageList,
  { logger, step }: Steps,
): Promise<VerifyReport> {
  const extent = await checkStoreRecords(database, options, damages, { logger });
  if (extent === undefined) return report(damages, {});
  const range = rangeToCheck(options, extent, damages);
  const balance = new PointerBalance(range);
  const counts = await checkBlocks({
    database,
    extent,
    range,
    whole: options.from === undefined && options.to === undefined,
    balance,
    damages,
    holds: proofChecker(options.chainId),
    objectionTo: options.objectionTo,
    onHeight: (height) => step({ phase: 'blocks', height, ...range }),
  });
  const pointers = await checkPointers({
    database,
    extent,
    balance,
    damages,
    onStep: (seen) => step({ phase: 'pointers', pointers: seen }),
  });
  await checkUnknownKeys(database, damages);
  const { latestIndexedHeight } = extent;
  return report(damages, { range, latestIndexedHeight, ...counts, pointers });
}

function rangeToCheck(options: VerifyOptions, extent: Extent, damages: DamageList): HeightRange {
  const { firstHeight, allowed } = extent;
  const lowest = allowed[0]?.from ?? firstHeight;
  const highest = allowed.at(-1)?.to ?? firstHeight - 1;
  const { from = lowest, to = highest } = options;
  const asked = options.from !== undefined || options.to !== undefined;
  // If the store's own records are damaged, its extent is a guess, and no reason to refuse heights.
  if (asked && damages.count === 0 && (from < lowest || to > highest || from > to)) {
    throw new OperatorError(
      'usage',
      `Cannot verify heights ${from} to ${to}: the store holds heights ${rangesInWords(allowed)}.`,
    );
  }
  return { from: Math.max(from, lowest), to: Math.min(to, highest) };
}

function report(
  damages: DamageList,
  found: Partial<Omit<VerifyReport, 'ranges'>> & { readonly ranges?: BlockCounts['ranges'] },
): VerifyReport {
  const { range, ranges = [] } = found;
  return {
    latestIndexedHeight: undefined,
    waiting: undefined,
    heights: 0,
    collections: 0,
    transactions: 0,
    bytes: 0,
    proven: 0,
    pointers: 0,
    ...found,
    ...damages.report(ranges),
    range: range === undefined || range.to < range.from ? undefined : range,
  };
}
