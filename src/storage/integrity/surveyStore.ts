import { readdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Logger } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import { copyFiles } from '../files/copyFiles.js';
import { prepareDirectory, realPlace } from '../leveldb/directory/storeDirectory.js';
import { LevelIndexStore } from '../leveldb/LevelIndexStore.js';
import { hasCode } from '../StorageError.js';

/** True for a process that has ended: one that was killed leaves its copy. */
function isGone(pid: number): boolean {
  try {
    return pid > 0 && !process.kill(pid, 0);
  } catch (error) {
    return hasCode(error, 'ESRCH');
  }
}

/**
 * Looks at a store that no process uses, and changes nothing, not even what LevelDB would tidy up at an open: it opens a
 * copy beside the store, which shares its tables. Expected errors: those of `LevelIndexStore.open`.
 */
export async function surveyStore(
  { path: place, chainId }: { readonly path: string; readonly chainId: string },
  dependencies: { readonly logger: Logger; readonly clock: Clock },
) {
  const path = await realPlace(place);
  const copy = `${path}.survey-${process.pid}`;
  await prepareDirectory(path, false);
  const [beside, name] = [dirname(path), `${basename(path)}.survey-`];
  for (const left of await readdir(beside).catch(() => []))
    if (left.startsWith(name) && isGone(Number(left.slice(name.length))))
      // A copy of another user stays until that user's next survey.
      await rm(join(beside, left), { recursive: true, force: true }).catch(() => undefined);
  try {
    const { linkedBytes: bytes } = await copyFiles(path, copy, { linksOnly: true });
    const store = await LevelIndexStore.open({ path: copy, chainId, create: false }, dependencies);
    const sporks = store.meta()?.sporks ?? [];
    await store.close();
    // `bytes`: of all tables.
    return { bytes, sporks, coverage: store.coverage(), plans: store.ranges.plans() };
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}
