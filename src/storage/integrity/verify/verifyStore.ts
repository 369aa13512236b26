import { mkdtemp, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { FinalizedBlock } from '../../../flow/index.js';
import type { Logger } from '../../../observability/index.js';
import { abortReason, OperatorError } from '../../../runtime/index.js';
import { inspectFiles } from '../../files/inspection.js';
import type { Inspection } from '../../files/inspection.js';
import { copyWithoutDamage } from '../../files/mendedCopy.js';
import { assertUnused, rebuildManifest } from '../../leveldb/directory/closedDatabase.js';
import { LevelDatabase } from '../../leveldb/directory/LevelDatabase.js';
import { defaultTuning } from '../../leveldb/directory/openLevel.js';
import { droppedAtOpen, prepareDirectory } from '../../leveldb/directory/storeDirectory.js';
import type { HeightRange } from '../../port/stored.js';
import type { Database } from '../../records/Database.js';
import { proofChecker } from '../../records/blocks/assembleBlock.js';
import { rangesInWords } from '../../records/heightRanges.js';
import { StorageError, storageErrorFrom } from '../../StorageError.js';
import { checkBlocks } from './checkBlocks.js';
import type { BlockCounts } from './checkBlocks.js';
import { checkPointers } from './checkPointers.js';
import { checkStoreRecords, checkUnknownKeys } from './checkStoreRecords.js';
import type { Extent } from './checkStoreRecords.js';
import { DamageList } from './DamageList.js';
import type { VerifyReport } from './DamageList.js';
import { PointerBalance } from './PointerBalance.js';
import type { KeySpan } from '../../files/format/manifest.js';
import { parseBlockKey, parseBodyKey, Prefix } from '../../records/schema.js';

/**
 * The heights whose block records or bodies lie between two keys, in words. "any" between other keys: pointers, which are
 * ordered by id, and the records of the store.
 */
function affectedHeights({ from, through }: Partial<KeySpan>): string {
  const first = from?.[0] ?? 0;
  const last = through?.[0] ?? Infinity;
  if (first < Prefix.block || last > Prefix.body) return 'any';
  const spans = [Prefix.block, Prefix.body]
    .filter((prefix) => prefix >= first && prefix <= last)
    .map((prefix) => ({
      from: from !== undefined && prefix === first ? heightOf(from) : undefined,
      to: through !== undefined && prefix === last ? heightOf(through) : undefined,
    }));
  return spans.map(inWords).join(', ');
}

/** The separator between two blocks of a table may be shorter than a whole key. */
function heightOf(key: Buffer): number | undefined {
  const whole = Buffer.concat([key, Buffer.alloc(Math.max(0, WHOLE_BYTES - key.length))]).subarray(
    0,
    WHOLE_BYTES,
  );
  return parseBlockKey(whole) ?? parseBodyKey(Buffer.concat([whole, Buffer.alloc(4)]))?.height;
}

const WHOLE_BYTES = 9;

function inWords({
  from,
  to,
}: {
  readonly from: number | undefined;
  readonly to: number | undefined;
}): string {
  if (from === undefined) return to === undefined ? 'any' : `up to ${to}`;
  if (to === undefined) return `${from} and above`;
  return from === to ? String(from) : `${from} to ${to}`;
}

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
  | { readonly phase: 'files' }
  | { readonly phase: 'blocks'; readonly height: number; readonly from: number; readonly to: number }
  | { readonly phase: 'pointers'; readonly pointers: number };

export interface VerifyDependencies {
  readonly logger: Logger;
  readonly onProgress?: (progress: VerifyProgress) => void;
  readonly signal?: AbortSignal;
}

const DEFAULT_MAX_DAMAGES = 1000;

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
    await assertUnused(path);
    const onTable = (): void => step({ phase: 'files' });
    const inspection = await inspectFiles(path, { tableBytes: Infinity, contents: true, onTable });
    for (const { file, what, keys } of inspection.damages) {
      const heights = keys === undefined ? '' : `; heights that may be affected: ${affectedHeights(keys)}`;
      damages.add('database', undefined, `file ${file}: ${what}${heights}`);
    }
    if (inspection.damages.length === 0) {
      return await verifyAt(path, options, damages, { ...dependencies, step });
    }
    return await verifyDamaged(path, inspection, options, damages, { ...dependencies, step });
  } catch (error) {
    damages.addError('database', error);
    return report(damages, {});
  }
}

interface Steps extends VerifyDependencies {
  readonly step: (progress: VerifyProgress) => void;
}

/** Names the heights lost with damaged files, on a copy that leaves the damaged parts out. */
async function verifyDamaged(
  path: string,
  inspection: Inspection,
  options: VerifyOptions,
  damages: DamageList,
  steps: Steps,
): Promise<VerifyReport> {
  let copy: string | undefined;
  try {
    try {
      copy = await mkdtemp(join(dirname(path), 'verify-'));
      if (await copyWithoutDamage(path, copy, inspection)) await rebuildManifest(copy);
    } catch (error) {
      const fault = storageErrorFrom(error, 'copy the sound files of the store', path);
      if (!(fault instanceof StorageError)) throw fault;
      damages.add('database', undefined, `the damaged heights cannot be named: ${fault.message}`);
      return report(damages, {});
    }
    return await verifyAt(copy, options, damages, steps);
  } finally {
    if (copy !== undefined) await rm(copy, { recursive: true, force: true });
  }
}

async function verifyAt(
  path: string,
  options: VerifyOptions,
  damages: DamageList,
  steps: Steps,
): Promise<VerifyReport> {
  const database = await LevelDatabase.open(path, defaultTuning, { create: false });
  try {
    for (const line of await droppedAtOpen(path)) {
      damages.add(
        'database',
        undefined,
        `the end of the write-ahead log was torn and has been dropped: ${line}`,
      );
    }
    return await verifyDatabase(database, options, damages, steps);
  } finally {
    await database.close();
  }
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
