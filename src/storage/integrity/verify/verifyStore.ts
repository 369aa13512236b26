import type { Logger } from '../../../observability/index.js';
import { messageOf } from '../../../runtime/index.js';
import { withDatabase } from '../../leveldb/directory/levelDatabase.js';
import { droppedAtOpen, prepareDirectory } from '../../leveldb/directory/storeDirectory.js';
import { headAt, storedValues } from '../../leveldb/reading/checkHeights.js';
import { readingOn } from '../../leveldb/reading/readingOn.js';
import { proofChecker } from '../../records/blocks/assembleBlock.js';
import { causesOf, isCorruption } from '../../StorageError.js';
import { checkHeights, rangeToCheck, reportOf, storedHeights } from '../../verify/checkHeights.js';
import type { VerifyOptions, VerifyProgress } from '../../verify/checkHeights.js';
import { DamageList, type VerifyReport } from '../../verify/DamageList.js';
import { checkStoreRecords, unknownKeys } from './checkStoreRecords.js';
import { PointerBalance } from './PointerBalance.js';

export interface VerifyDependencies {
  readonly logger: Logger;
  readonly onProgress?: (progress: VerifyProgress) => void;
  readonly signal?: AbortSignal;
}

/** The most distinct messages of LevelDB to report about what it cannot read. */
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
  options: VerifyOptions & { readonly path: string },
  dependencies: VerifyDependencies,
): Promise<VerifyReport> {
  const { path, from, to } = options;
  const { logger, onProgress, signal } = dependencies;
  const damages = new DamageList();
  const step = (progress: VerifyProgress): void => {
    signal?.throwIfAborted();
    onProgress?.(progress);
  };
  try {
    await prepareDirectory(path, false);
    return await withDatabase(path, async (opened) => {
      for (const line of await droppedAtOpen(path))
        damages.add('log', undefined, `the write-ahead log: ${line}`);
      const unreadable = new Set<string>();
      const database = readingOn(opened, (damage) => {
        if (unreadable.has(damage) || unreadable.size >= MAX_UNREADABLE) return;
        unreadable.add(damage);
        damages.add('database', undefined, `the database cannot read all of its files: ${damage}`);
      });
      const extent = await checkStoreRecords(database, options, damages, { logger });
      if (extent === undefined) return reportOf(damages);
      const range = rangeToCheck(options, extent, damages);
      const balance = new PointerBalance(range, { database, extent, damages });
      const isWhole = from === undefined && to === undefined;
      const values = storedValues(database, isWhole ? undefined : range, damages);
      const counts = await checkHeights(storedHeights(values), {
        extent,
        range,
        headAt: (height) => headAt(database, height),
        damages,
        holds: proofChecker(options.chainId),
        objectionTo: options.objectionTo,
        onHeight: (height) => step({ phase: 'blocks', height, ...range }),
        onSound: (entry) => balance.expect(entry),
      });
      const pointers = await balance.check((seen) => step({ phase: 'pointers', pointers: seen }));
      for await (const key of unknownKeys(database))
        damages.add('unexpected', undefined, `key ${key.toString('hex')} is not one of ours`);
      return reportOf(damages, { range, latestIndexedHeight: extent.live.to, ...counts, pointers });
    });
  } catch (error) {
    if (!isCorruption(error)) throw error;
    damages.add('database', undefined, error.damage ?? messageOf(causesOf(error).at(-1)));
    return reportOf(damages);
  }
}
