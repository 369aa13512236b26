import { rm } from 'node:fs/promises';
import type { Logger } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import { copyFiles } from '../files/copyFiles.js';
import { prepareDirectory } from '../leveldb/directory/storeDirectory.js';
import { LevelIndexStore } from '../leveldb/LevelIndexStore.js';

/**
 * Looks at a store that no process uses, and changes nothing, not even what LevelDB would tidy up at an open: it is a copy
 * beside it that is opened, which shares its tables. Expected errors: those of `LevelIndexStore.open`.
 */
export async function surveyStore(
  { path, chainId }: { readonly path: string; readonly chainId: string },
  dependencies: { readonly logger: Logger; readonly clock: Clock },
) {
  const copy = `${path}.survey-${process.pid}`;
  await prepareDirectory(path, false);
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
