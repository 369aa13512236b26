import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../../observability/index.js';
import { withoutUrlPaths, type Clock } from '../../runtime/index.js';
import { exists } from '../files/synced.js';
import { copyFiles } from '../files/copyFiles.js';
import { unpackSnapshot, type SnapshotProgress } from '../files/snapshotArchive.js';
import { holdsData, prepareDirectory, replaceablePlace } from '../leveldb/directory/storeDirectory.js';
import { StorageError } from '../StorageError.js';
import type { VerifyReport } from '../verify/DamageList.js';
import { makeBeside } from './backup.js';
import { verifyStore } from './verify/verifyStore.js';
import type { VerifyOptions, VerifyProgress } from '../verify/checkHeights.js';

export interface RestoreDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: VerifyProgress | SnapshotProgress) => void;
}

/**
 * Makes a store from a snapshot, which is not trusted: it becomes the store only after `verifyStore` has recomputed every
 * id and found no damage. An interrupted restore can be run again from the beginning. `from`: a directory with a store, a
 * data directory, or the URL of an archive of either. `path`: where the store goes: missing, or a store that never held
 * anything.
 *
 * Expected errors: `StorageError` (`corrupt` for a damaged snapshot, naming its first damage; `missing`, `not_a_store`
 * when there is a store already, `disk_full`, …); `OperatorError` (`foreign`, `configuration`, `usage` for a URL that
 * does not return an archive); the signal's abort reason.
 */
export async function restoreStore(
  {
    from,
    path: place,
    chainId,
    objectionTo,
  }: Pick<VerifyOptions, 'chainId' | 'objectionTo'> & { readonly from: string; readonly path: string },
  dependencies: RestoreDependencies,
): Promise<VerifyReport> {
  const path = await replaceablePlace(place);
  return makeBeside('restore', path, 'restore the store', async (partial) => {
    if (await holdsData(path)) {
      const what = `There is a store at ${path} already, and nothing is ever replaced. Move it away, or choose another --data-dir.`;
      throw new StorageError('not_a_store', what);
    }
    await prepareDirectory(path, true);
    await rm(path, { recursive: true, force: true });
    if (/^https?:\/\//i.test(from)) await unpackSnapshot(from, partial, dependencies);
    else await copyFiles(await storeIn(from), partial, dependencies);
    const report = await verifyStore({ path: partial, chainId, objectionTo }, dependencies);
    const [damage] = report.damages;
    if (damage === undefined) return report;
    const others = report.damageCount > 1 ? ` (and ${report.damageCount - 1} more)` : '';
    const what = `The snapshot ${withoutUrlPaths(from)} is damaged, and nothing of it was taken: ${damage.message}${others}. Take another one.`;
    throw new StorageError('corrupt', what, { damage: damage.message });
  });
}

/** A backup is laid out like a data directory. Expected errors: `StorageError` (`missing`). */
async function storeIn(from: string): Promise<string> {
  for (const path of [join(from, 'index'), from]) {
    if (await exists(join(path, 'CURRENT'))) return path;
  }
  throw new StorageError(
    'missing',
    `There is no snapshot at ${withoutUrlPaths(from)}: neither it nor a directory "index" in it holds a store.`,
  );
}
