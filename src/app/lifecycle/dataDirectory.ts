import { stat } from 'node:fs/promises';
import type { Logger } from '../../observability/index.js';
import { storePathOf } from './daemonRecord.js';

/** Permission bits of everybody but the owner. */
const OTHERS = 0o077;
/** Windows has no such bits: every directory there reads as open to all. */
const hasModes = process.platform !== 'win32';

/**
 * Warns when others than the owner may enter the data directory or the store in it; the daemon creates both for the
 * owner only. Changes nothing: whoever opened an existing directory may have had a reason.
 */
export async function warnOfOpenDirectory(
  dataDir: string,
  { logger }: { readonly logger: Logger },
): Promise<void> {
  if (!hasModes) return;
  for (const path of [dataDir, storePathOf(dataDir)]) {
    const mode = (await stat(path)).mode & 0o777;
    if ((mode & OTHERS) === 0) continue;
    const fields = { path, mode: mode.toString(8), advice: `chmod 700 ${path}` };
    logger.warn(fields, 'the data directory is open to other users of this machine');
    return;
  }
}
